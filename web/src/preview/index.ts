/** Files, foreign pages, and the pages that a bundle brings. */

export { BundleFrame } from "./BundleFrame.tsx";
export { FilePreview } from "./FilePreview.tsx";
export { HtmlFrame } from "./HtmlFrame.tsx";
