// Builds static/vendor/ from npm packages and our own sources. Run after `npm ci`: node static/build.mjs
//
//   vendor/console.css   fonts + the PatternFly rules our templates use (layer "vendor") + static/css/*.css
//   vendor/icons.svg     one sprite: the Lucide icons named in static/icons.json and our own static/icons/*.svg
//   vendor/idiomorph.js  morphs one piece of a page into another
//   vendor/*.gz *.br     the same, compressed, which the server sends instead
//   vendor/fonts/        Inter and JetBrains Mono, as shipped by Fontsource
//
// Everything third-party sits in a cascade layer, so our unlayered rules win without !important.
import { cp, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliCompressSync, gzipSync } from "node:zlib";
import { PurgeCSS } from "purgecss";

const here = dirname(fileURLToPath(import.meta.url));
const vendor = join(here, "vendor");
const require = createRequire(import.meta.url);
const packageDir = (name) => dirname(require.resolve(`${name}/package.json`));

const PATTERNFLY = [
  "base/patternfly-variables.css",
  "base/patternfly-common.css",
  ...["Alert/alert", "Breadcrumb/breadcrumb", "Button/button", "Card/card", "Form/form", "FormControl/form-control",
    "Nav/nav", "SkipToContent/skip-to-content", "Tabs/tabs", "ToggleGroup/toggle-group"].map((path) => `components/${path}.css`),
];
// Order matters: later files refine earlier ones.
const OWN = ["tokens", "patternfly", "shell", "words", "parts", "charts", "health", "overview", "evidence", "inbox", "sets", "placements", "access", "tables", "list", "cluster", "joining", "account", "media"];
const FONTS = ["inter", "jetbrains-mono"];
const NOTICE = "/*! Contains PatternFly 6 (MIT), Inter and JetBrains Mono (SIL OFL 1.1). */\n";

async function patternflyCss() {
  const root = packageDir("@patternfly/patternfly");
  const sources = await Promise.all(PATTERNFLY.map((file) => readFile(join(root, file), "utf8")));
  const [purged] = await new PurgeCSS().purge({
    // Our own CSS counts as content, so that a PatternFly variable we set or read is kept.
    content: [join(here, "../templates/**/*.html"), join(here, "css/*.css"), join(here, "js/*.js")],
    css: [{ raw: sources.join("\n").replace(/@charset "[^"]*";/g, "") }],
    // Templates write alert tones as pf-m-{{ tone }}.
    safelist: [/^pf-m-(success|info|warning|danger)$/],
    variables: true,
    keyframes: true,
    fontFace: true,
  });
  return `@layer vendor {\n${purged.css}\n}\n`;
}

async function fontsCss() {
  const sheets = FONTS.map(async (font) => {
    const root = packageDir(`@fontsource-variable/${font}`);
    await cp(join(root, "LICENSE"), join(vendor, "fonts", `${font}-LICENSE`));
    const css = await readFile(join(root, "index.css"), "utf8");
    const files = [...css.matchAll(/url\(\.\/files\/([^)]+)\)/g)].map((match) => match[1]);
    await Promise.all(files.map((file) => cp(join(root, "files", file), join(vendor, "fonts", file))));
    return css.replaceAll("./files/", "./fonts/");
  });
  return (await Promise.all(sheets)).join("\n");
}

async function ownCss() {
  const sheets = await Promise.all(OWN.map((name) => readFile(join(here, "css", `${name}.css`), "utf8")));
  return sheets.join("\n");
}

function symbol(id, svg, attributes) {
  const [, viewBox] = svg.match(/viewBox="([^"]+)"/);
  const [, body] = svg.match(/<svg[^>]*>([\s\S]*)<\/svg>/);
  return `<symbol id="${id}" viewBox="${viewBox}" ${attributes}>${body.replace(/\s*\n\s*/g, "")}</symbol>`;
}

async function sprite() {
  const lucide = join(packageDir("lucide-static"), "icons");
  const names = JSON.parse(await readFile(join(here, "icons.json"), "utf8"));
  const line = 'fill="none" stroke="currentColor" stroke-width="2" stroke-linecap="round" stroke-linejoin="round"';
  const solid = 'fill="currentColor" fill-rule="evenodd"';
  const symbols = [
    ...names.map(async (name) => symbol(name, await readFile(join(lucide, `${name}.svg`), "utf8"), line)),
    ...(await readdir(join(here, "icons"))).map(async (file) =>
      symbol(file.replace(".svg", ""), await readFile(join(here, "icons", file), "utf8"), solid)),
  ];
  const body = (await Promise.all(symbols)).join("\n");
  return `<svg xmlns="http://www.w3.org/2000/svg"><!-- line icons: Lucide, ISC licence -->\n${body}\n</svg>\n`;
}

await rm(vendor, { recursive: true, force: true });
await mkdir(join(vendor, "fonts"), { recursive: true });
const css = [NOTICE, await fontsCss(), await patternflyCss(), await ownCss()].join("\n");
await writeFile(join(vendor, "console.css"), css);
await writeFile(join(vendor, "icons.svg"), await sprite());
await cp(require.resolve("idiomorph/dist/idiomorph.esm.js"), join(vendor, "idiomorph.js"));
for (const file of (await readdir(vendor)).filter((name) => [".css", ".svg", ".js"].includes(extname(name)))) {
  const text = await readFile(join(vendor, file));
  await writeFile(join(vendor, `${file}.gz`), gzipSync(text, { level: 9 }));
  await writeFile(join(vendor, `${file}.br`), brotliCompressSync(text));
}
