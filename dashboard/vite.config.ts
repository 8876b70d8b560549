import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// The app, for `hotloop serve`. The server's content security policy allows files of its own only: nothing is inlined.
export default defineConfig({
  plugins: [react()],
  build: {
    outDir: "../python/hotloop/server/static",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  server: { proxy: { "/api": "http://127.0.0.1:8765", "/openapi.json": "http://127.0.0.1:8765" } },
  test: { include: ["src/**/*.test.ts"], environment: "node" },
});
