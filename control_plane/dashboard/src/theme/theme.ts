/** Mantine in Farhand's look: warm neutrals, one teal accent, hairlines instead of shadows. */
import {
  ActionIcon,
  Button,
  type CSSVariablesResolver,
  createTheme,
  defaultVariantColorsResolver,
  type MantineColorsTuple,
  Menu,
  Modal,
  Tooltip,
  type VariantColorsResolver,
} from "@mantine/core";

const tide: MantineColorsTuple = [
  "#e8f5f3",
  "#d2ebe7",
  "#a8d9d2",
  "#7ed0c6",
  "#5cc8bb",
  "#2b9c91",
  "#0f766e",
  "#0c655e",
  "#0a544f",
  "#07423e",
];

const red: MantineColorsTuple = [
  "#fcefed",
  "#f8dcd9",
  "#f0c4bf",
  "#f7a69d",
  "#f58f84",
  "#d6473d",
  "#b3261e",
  "#9c1f18",
  "#851a14",
  "#6b130e",
];

const gray: MantineColorsTuple = [
  "#faf9f7",
  "#f3f1ed",
  "#ebe8e3",
  "#e6e2dc",
  "#d3cdc4",
  "#a8a198",
  "#69635b",
  "#544f48",
  "#39352f",
  "#24211d",
];

const dark: MantineColorsTuple = [
  "#ece8e2",
  "#cdc7be",
  "#a8a198",
  "#857e75",
  "#34302b",
  "#292622",
  "#201e1b",
  "#181614",
  "#131110",
  "#0d0c0b",
];

/** Buttons take their colours from the tokens, which are AA in both schemes. */
const variantColors: VariantColorsResolver = (input) => {
  const resolved = defaultVariantColorsResolver(input);
  const name = (input.color ?? "tide") === "red" ? "bad" : "accent";
  if (input.color !== undefined && !["tide", "red"].includes(input.color)) return resolved;
  if (input.variant === "filled") {
    return {
      ...resolved,
      background: `var(--fh-${name})`,
      hover: `var(--fh-${name}-strong)`,
      color: `var(--fh-on-${name})`,
    };
  }
  if (input.variant === "subtle" || input.variant === "light" || input.variant === "outline") {
    return {
      ...resolved,
      background: input.variant === "light" ? `var(--fh-${name}-soft)` : "transparent",
      hover: `var(--fh-${name}-soft)`,
      border: input.variant === "outline" ? `1px solid var(--fh-${name}-line)` : resolved.border,
      color: `var(--fh-${name})`,
    };
  }
  return resolved;
};

export const theme = createTheme({
  colors: { tide, red, gray, dark },
  primaryColor: "tide",
  primaryShade: { light: 6, dark: 4 },
  variantColorResolver: variantColors,
  black: "#24211d",
  defaultRadius: "md",
  radius: { xs: "4px", sm: "6px", md: "10px", lg: "10px", xl: "16px" },
  spacing: { xs: "8px", sm: "12px", md: "16px", lg: "24px", xl: "32px" },
  fontFamily:
    '-apple-system, BlinkMacSystemFont, "Segoe UI Variable Text", "Segoe UI", Inter, Roboto, "Noto Sans", Cantarell, Ubuntu, system-ui, sans-serif',
  fontFamilyMonospace: "var(--fh-mono)",
  fontSizes: { xs: "12px", sm: "14px", md: "15px", lg: "17px", xl: "20px" },
  lineHeights: { xs: "1.4", sm: "1.45", md: "1.55", lg: "1.5", xl: "1.4" },
  headings: {
    fontWeight: "620",
    sizes: {
      h1: { fontSize: "26px", lineHeight: "32px" },
      h2: { fontSize: "17px", lineHeight: "24px" },
      h3: { fontSize: "15px", lineHeight: "22px" },
    },
  },
  cursorType: "pointer",
  respectReducedMotion: true,
  components: {
    Button: Button.extend({
      // 40 px: comfortable for a finger, calm beside 15 px text.
      defaultProps: { h: 40, fw: 550, fz: 14 },
    }),
    ActionIcon: ActionIcon.extend({ defaultProps: { variant: "subtle", color: "gray", size: 36 } }),
    Modal: Modal.extend({
      defaultProps: {
        centered: true,
        padding: "lg",
        shadow: "none",
        overlayProps: { backgroundOpacity: 0.4, color: "#131110" },
        transitionProps: { transition: "fade", duration: 120 },
        // Wheel and touch are held; the scroll bar stays, so that nothing behind moves sideways.
        removeScrollProps: { removeScrollBar: false },
        closeButtonProps: { "aria-label": "Close", size: 36 },
        classNames: { title: "fh-dialog-title", body: "fh-dialog-body" },
      },
    }),
    Menu: Menu.extend({ defaultProps: { shadow: "none", transitionProps: { duration: 80 } } }),
    Tooltip: Tooltip.extend({ defaultProps: { openDelay: 250, withArrow: false } }),
  },
});

/** Point Mantine's own variables at the page's tokens, so both kinds of component agree. */
export const cssVariables: CSSVariablesResolver = () => {
  const shared = {
    "--mantine-color-body": "var(--fh-surface)",
    "--mantine-color-text": "var(--fh-text)",
    "--mantine-color-dimmed": "var(--fh-dim)",
    "--mantine-color-anchor": "var(--fh-accent)",
    "--mantine-color-error": "var(--fh-bad)",
    "--mantine-color-placeholder": "var(--fh-dim)",
    "--mantine-color-default": "var(--fh-surface)",
    "--mantine-color-default-hover": "var(--fh-hover)",
    "--mantine-color-default-border": "var(--fh-line-strong)",
    "--mantine-color-disabled": "var(--fh-hover)",
    "--mantine-color-disabled-color": "var(--fh-dim)",
    "--mantine-color-disabled-border": "var(--fh-line)",
  };
  return { variables: {}, light: shared, dark: shared };
};
