import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";

/** Puts script and style into the page: a report is one file that is opened without a server. */
function singleFile(): Plugin {
  return {
    name: "single-file",
    enforce: "post",
    generateBundle(_options, bundle) {
      const page = Object.values(bundle).find((file) => file.fileName.endsWith(".html"));
      if (page?.type !== "asset") throw new Error("the report has no page");
      let html = String(page.source);
      for (const file of Object.values(bundle)) {
        if (file === page) continue;
        const [tag, text] = file.type === "chunk" ? ["script", file.code] : ["style", String(file.source)];
        const pattern =
          file.type === "chunk"
            ? new RegExp(`<script[^>]*src="[^"]*${file.fileName}"[^>]*></script>`)
            : new RegExp(`<link[^>]*href="[^"]*${file.fileName}"[^>]*>`);
        if (!pattern.test(html)) throw new Error(`the report does not mention ${file.fileName}`);
        html = html.replace(pattern, "");
        // The script runs at the end of the body, when the data is there. "</" must not close the element.
        const inline = `<${tag}>${text.replaceAll("</script", "<\\/script").replaceAll("</style", "<\\/style")}</${tag}>`;
        const at = tag === "script" ? "</body>" : "</head>";
        html = html.replace(at, () => `${inline}\n${at}`);
        delete bundle[file.fileName];
      }
      page.source = html;
    },
  };
}

export default defineConfig({
  plugins: [react(), singleFile()],
  publicDir: false,
  build: {
    outDir: "../python/hotloop/server/static",
    emptyOutDir: false,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    cssCodeSplit: false,
    rollupOptions: { input: "report.html", output: { format: "iife" } },
  },
});
