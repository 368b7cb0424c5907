import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";

const SRC = new URL("../", import.meta.url);
const STYLES = new URL("../../node_modules/@mantine/core/styles/", import.meta.url);

/** What a component draws by means of others. */
const BUILT_OF: Record<string, readonly string[]> = {
  ActionIcon: ["UnstyledButton", "Loader"],
  Button: ["UnstyledButton", "Loader"],
  Menu: ["Popover", "UnstyledButton"],
  Modal: ["ModalBase", "CloseButton", "Overlay", "Paper", "UnstyledButton"],
  TextInput: ["Input"],
  Textarea: ["Input"],
};

function usedComponents(): string[] {
  const names = new Set<string>();
  for (const file of readdirSync(SRC, { recursive: true, encoding: "utf8" })) {
    if (!file.endsWith(".tsx") && !file.endsWith("theme.ts")) continue;
    const text = readFileSync(new URL(file, SRC), "utf8");
    for (const [, list] of text.matchAll(/import \{([^}]*)\} from "@mantine\/core"/g)) {
      for (const name of (list ?? "").split(",")) {
        const [component] = name.trim().split(/\s/);
        if (component !== undefined && /^[A-Z]/.test(component)) names.add(component);
      }
    }
  }
  return [...names].flatMap((name) => [name, ...(BUILT_OF[name] ?? [])]);
}

test("every component of Mantine that the page uses has its styles", () => {
  const imported = readFileSync(new URL("theme/mantine_styles.ts", SRC), "utf8");
  const missing = usedComponents().filter(
    (name) => existsSync(new URL(`${name}.css`, STYLES)) && !imported.includes(`/${name}.css`),
  );
  assert.deepEqual([...new Set(missing)], []);
});
