/** A link that looks like a button; `to` and `search` are checked against the page's addresses. */
import { Button, type ButtonProps } from "@mantine/core";
import { createLink } from "@tanstack/react-router";
import type { AnchorHTMLAttributes, Ref } from "react";

type LinkProps = ButtonProps &
  Omit<AnchorHTMLAttributes<HTMLAnchorElement>, keyof ButtonProps | "href"> & {
    ref?: Ref<HTMLAnchorElement>;
  };

export const ButtonLink = createLink((props: LinkProps) => <Button component="a" {...props} />);
