/** Parts that are not in the page's first render: one chunk, loaded right after it. */

export { Announcements } from "../announce/announcements.tsx";
export { editMessage, runAgain } from "../branches/branch_off.ts";
export { BranchName, BranchPoints, ForkLinks, OriginLink } from "../branches/branch_points.tsx";
export { EditField, MessageTools } from "../branches/edit_field.tsx";
export { askToFork } from "../branches/fork.ts";
export { PastReader } from "../branches/past_reader.ts";
export { switchBranch } from "../branches/switch_branch.ts";
export { TurnTools } from "../branches/turn_tools.tsx";
export { Confirm } from "../erase/confirm.tsx";
export { Deleted } from "../erase/deleted.tsx";
export { MenuItems } from "../menu/menu.tsx";
export { SearchPage } from "../search/search_page.tsx";
export { ReceiptTable } from "../turn/receipt.tsx";
export { KeysSheet } from "./keys_sheet.tsx";
