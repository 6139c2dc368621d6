/** Files, also while they are written, foreign pages, and the pages that a bundle brings. */

export { BundleFrame } from "./bundle_frame.tsx";
export { DraftPreview } from "./draft_preview.tsx";
export { FilePreview } from "./file_preview.tsx";
export { HtmlFrame } from "./html_frame.tsx";
