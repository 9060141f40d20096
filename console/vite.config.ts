import { fileURLToPath } from "node:url";
import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

/** For development: `npx vite console` serves the console and forwards its API requests to a service on port 3000. */
const service = { target: process.env.PURSER ?? "http://127.0.0.1:3000", changeOrigin: false };

export default defineConfig({
  root: import.meta.dirname,
  plugins: [react(), tailwindcss()],
  resolve: {
    alias: {
      "react-remove-scroll": `${import.meta.dirname}/src/ui/no-scroll-lock.tsx`,
      // The package's browser version needs a document, which the Markdown worker does not have.
      "decode-named-character-reference": fileURLToPath(import.meta.resolve("decode-named-character-reference")),
    },
  },
  build: {
    outDir: "dist",
    emptyOutDir: true,
    target: "es2023",
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    // For the list of packages in a build: deploy/build.ts.
    license: { fileName: "licenses.json" },
  },
  server: { proxy: { "/api": service, "/docs": service, "/openapi.json": service } },
});
