/** Starts the page. */
import "@mantine/core/styles.css";
import { MantineProvider, Text } from "@mantine/core";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";

const nonce = document.querySelector<HTMLMetaElement>('meta[name="csp-nonce"]')?.content ?? "";
const root = document.getElementById("root");
if (root === null) throw new Error("cannot start the page: index.html has no element #root");

createRoot(root).render(
  <StrictMode>
    <MantineProvider defaultColorScheme="auto" getStyleNonce={() => nonce}>
      <Text>Farhand</Text>
    </MantineProvider>
  </StrictMode>,
);
