/** Loads the parts of an open page: the sentences of codes, and the parts after the first render. */

import { loadCodes, loadLater } from "../src/ui/app/load_later.ts";
import { loadOnce } from "../src/ui/app/use_module.ts";

await loadOnce(loadCodes);
if (typeof document !== "undefined") await loadOnce(loadLater);
