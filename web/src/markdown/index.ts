/** Renders untrusted text as elements. */

export { CodeBlock } from "./code_block.tsx";
export { CITE_CARD_ID, type MarkdownContext, pathAddress } from "./context.ts";
export { isPlainClick } from "./link.tsx";
export { Markdown } from "./markdown.tsx";
export { parsePath } from "./path.ts";
export { visible, visibleOrder } from "./visible.ts";
