/** How the page is bundled: same-origin files only, nothing inline (the page's CSP allows no inline script). */
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// Where `vite` (the development server) finds a running control plane.
const controlPlane = process.env["FARHAND_URL"] ?? "http://127.0.0.1:8420";

export default defineConfig({
  plugins: [react()],
  build: {
    target: "es2022",
    outDir: "build",
    emptyOutDir: true,
    assetsDir: "assets",
    // A data: URL would need an exception in the CSP (fonts) or hide bytes from the browser's cache.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    sourcemap: false,
    // Who wrote what is bundled: goes with the page in the wheel, and a test reads it.
    license: { fileName: "licenses.md" },
    reportCompressedSize: false,
    chunkSizeWarningLimit: 700,
  },
  server: {
    proxy: { "/v1": controlPlane, "/install.sh": controlPlane, "/dist": controlPlane },
  },
});
