/** The frame of every view: where one can go, who is signed in, and whether the page is connected. */
import { Outlet, useRouter } from "@tanstack/react-router";
import { useEffect, useRef } from "react";
import { ReconnectingBanner } from "../live/ReconnectingBanner.tsx";
import { AccountMenu } from "./AccountMenu.tsx";

import { Logo } from "./Logo.tsx";
import { Navigation } from "./Navigation.tsx";
import classes from "./Shell.module.css";

export function Shell() {
  const content = useRef<HTMLElement>(null);
  useFocusOnNavigation(content);
  return (
    <div className={classes["shell"]}>
      <a className={classes["skip"]} href="#content">
        Skip to content
      </a>
      {/* No header element: a dialog has one, and a page has one banner. */}
      <nav className={classes["rail"]} aria-label="Main">
        <div className={classes["brand"]}>
          <Logo />
          <span className={classes["name"]}>Farhand</span>
        </div>
        <Navigation />
        <div className={classes["account"]}>
          <AccountMenu />
        </div>
      </nav>
      <ReconnectingBanner />
      <main id="content" ref={content} tabIndex={-1} className={classes["content"]}>
        <Outlet />
      </main>
    </div>
  );
}

/** After going somewhere else, the keyboard and screen readers go on at its beginning. */
function useFocusOnNavigation(content: React.RefObject<HTMLElement | null>): void {
  const router = useRouter();
  useEffect(
    () =>
      router.subscribe("onResolved", ({ fromLocation, pathChanged }) => {
        if (fromLocation === undefined || !pathChanged) return;
        // A view may have put the focus where it is wanted already (the chat's box).
        if (content.current?.contains(document.activeElement)) return;
        content.current?.focus({ preventScroll: true });
      }),
    [router, content],
  );
}
