/** The parts that an open page has loaded: the sentences of codes, and the parts that come after the first picture. */

import { loadCodes, loadLater } from "../src/ui/app/load_later.ts";
import { loadOnce } from "../src/ui/app/use_module.ts";

await loadOnce(loadCodes);
if (typeof document !== "undefined") await loadOnce(loadLater);
