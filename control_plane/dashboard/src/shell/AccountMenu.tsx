/** Who is signed in and to which instance; how the page looks; signing out. */
import {
  type MantineColorScheme,
  Menu,
  UnstyledButton,
  useMantineColorScheme,
  VisuallyHidden,
} from "@mantine/core";
import { IconDeviceLaptop, IconLogout, IconMoon, IconSelector, IconSun } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { signOut } from "../session/session.ts";
import classes from "./AccountMenu.module.css";
import { meQuery } from "./queries.ts";

const SCHEMES = [
  { value: "auto", word: "As the system", icon: IconDeviceLaptop },
  { value: "light", word: "Light", icon: IconSun },
  { value: "dark", word: "Dark", icon: IconMoon },
] as const;

export function AccountMenu() {
  const me = useQuery(meQuery).data;
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const name = me?.member.name ?? "";
  return (
    <Menu width={232} position="top-start" withinPortal={false} withInitialFocusPlaceholder={false}>
      <Menu.Target>
        <UnstyledButton className={classes["button"]}>
          <VisuallyHidden component="span">Account and appearance</VisuallyHidden>
          <span className={classes["face"]} aria-hidden="true">
            {(name.at(0) ?? "·").toUpperCase()}
          </span>
          <span className={classes["who"]}>
            <span className={classes["name"]}>{name}</span>
            <span className={classes["instance"]}>{me?.instance_name}</span>
          </span>
          <IconSelector className={classes["more"]} size={16} aria-hidden="true" />
        </UnstyledButton>
      </Menu.Target>
      <Menu.Dropdown>
        {me !== undefined && (
          <div className={classes["about"]}>
            Signed in as <b>{name}</b> to {me.instance_name}
            <br />
            Farhand {me.version}
          </div>
        )}
        <Menu.Label>Appearance</Menu.Label>
        <Menu.RadioGroup
          value={colorScheme}
          onChange={(value) => setColorScheme(value as MantineColorScheme)}
        >
          {SCHEMES.map(({ value, word, icon: Icon }) => (
            <Menu.RadioItem key={value} value={value}>
              <span className={classes["scheme"]}>
                <Icon size={18} stroke={1.7} aria-hidden="true" />
                {word}
              </span>
            </Menu.RadioItem>
          ))}
        </Menu.RadioGroup>
        <Menu.Divider />
        <Menu.Item
          leftSection={<IconLogout size={18} stroke={1.7} />}
          onClick={() => void signOut()}
        >
          Sign out
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
