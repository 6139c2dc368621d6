/** Parts that are not in the page's first render: one chunk, loaded right after it. */

export { Announcements } from "../announce/announcements.tsx";
export { Confirm } from "../erase/confirm.tsx";
export { Deleted } from "../erase/deleted.tsx";
export { MenuItems } from "../menu/menu.tsx";
export { SearchPage } from "../search/search_page.tsx";
export { ReceiptTable } from "../turn/receipt.tsx";
export { KeysSheet } from "./keys_sheet.tsx";
