/** The key that is Ctrl elsewhere, by the name that it has on this device. */
export const COMMAND = /Mac|iPhone|iPad/.test(navigator.userAgent) ? "⌘" : "Ctrl";
