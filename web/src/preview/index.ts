/** Previews of files, also while they are written, of untrusted pages, and of pages that a bundle brings along. */

export { BundleFrame } from "./bundle_frame.tsx";
export { DraftPreview } from "./draft_preview.tsx";
export { FilePreview } from "./file_preview.tsx";
export { HtmlFrame } from "./html_frame.tsx";
