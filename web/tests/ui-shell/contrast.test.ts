import { readFileSync } from "node:fs";
import { expect, it } from "vitest";

/** The colors of the page by name, light and dark, as relative luminances (WCAG 2). */
const css = readFileSync(new URL("../../src/ui/tokens.css", import.meta.url), "utf8");
const pair = /--([\w-]+): light-dark\(oklch\(([\d. ]+)\), oklch\(([\d. ]+)\)\)/g;
const colors = new Map([...css.matchAll(pair)].map(([, name, light, dark]) => [name, [light, dark].map(luminance)]));

function luminance(oklch = ""): number {
  const [l = 0, c = 0, hue = 0] = oklch.split(" ").map(Number);
  const [a, b] = [c * Math.cos((hue * Math.PI) / 180), c * Math.sin((hue * Math.PI) / 180)];
  const long = (l + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const middle = (l - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const short = (l - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [
    4.0767416621 * long - 3.3077115913 * middle + 0.2309699292 * short,
    -1.2684380046 * long + 2.6097574011 * middle - 0.3413193965 * short,
    -0.0041960863 * long - 0.7034186147 * middle + 1.707614701 * short,
  ].map((part) => Math.min(Math.max(part, 0), 1));
  const [red = 0, green = 0, blue = 0] = linear;
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function contrast(one: string, other: string, theme: number): number {
  const [lower = 0, upper = 0] = [colors.get(one)?.[theme], colors.get(other)?.[theme]]
    .map((value) => value ?? Number.NaN)
    .sort((a, b) => a - b);
  return (upper + 0.05) / (lower + 0.05);
}

it.each(["ink", "ink-2", "ink-3", "accent", "live", "ask", "ok", "bad"])(
  "text in %s can be read on every ground",
  (name) => {
    const soft = colors.has(`${name}-soft`) ? [`${name}-soft`] : [];
    for (const ground of ["bg", "surface", "sunken", ...soft]) {
      for (const theme of [0, 1])
        expect(contrast(name, ground, theme), `${ground} ${theme}`).toBeGreaterThanOrEqual(4.5);
    }
  },
);
