/** Starts the page. */
import "./theme/mantine_styles.ts";
import "./theme/tokens.css";
import { MantineProvider } from "@mantine/core";
import { QueryClientProvider } from "@tanstack/react-query";
import { setNonce } from "get-nonce";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { createQueryClient } from "./api/query_client.ts";
import { startLive } from "./live/live.ts";
import { forgetCodeAtSignOut } from "./machines/useCode.ts";
import { startSession } from "./session/session.ts";
import { App } from "./shell/App.tsx";
import { styleNonce } from "./theme/nonce.ts";
import { cssVariables, theme } from "./theme/theme.ts";

const root = document.getElementById("root");
if (root === null) throw new Error("cannot start the page: index.html has no element #root");

setNonce(styleNonce()); // for the style element that stops the page from scrolling behind a dialog
forgetCodeAtSignOut();
startSession();
const queries = createQueryClient();
startLive(queries);

createRoot(root).render(
  <StrictMode>
    <MantineProvider
      theme={theme}
      cssVariablesResolver={cssVariables}
      defaultColorScheme="auto"
      getStyleNonce={styleNonce}
    >
      <QueryClientProvider client={queries}>
        <App />
      </QueryClientProvider>
    </MantineProvider>
  </StrictMode>,
);
