/** The page's icons: 1.5 px lines on a 16 px grid. */

const PATHS = {
  plus: "M8 3v10M3 8h10",
  list: "M2.5 4.5h11M2.5 8h11M2.5 11.5h7",
  margin: "M2.5 3h11v10h-11zM10 3v10",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  clip: "m12.5 7.5-4.6 4.6a2.6 2.6 0 0 1-3.7-3.7l5-5a1.8 1.8 0 0 1 2.5 2.5l-5 5a.9.9 0 0 1-1.2-1.3l4.2-4.2",
  find: "M11 7a4 4 0 1 1-8 0 4 4 0 0 1 8 0zM10 10l3.5 3.5",
  bin: "M3 4.500h10M6.500 4.500v-2h3v2M4.500 4.500l.5 9h6l.5-9M7 7v4M9 7v4",
  close: "m4 4 8 8M12 4l-8 8",
  file: "M4 2.5h5l3 3v8H4zM9 2.5v3h3",
  check: "m3.5 8.5 3 3 6-7",
  down: "M8 3v10M4 9l4 4 4-4",
  again: "M12.5 8a4.500 4.500 0 1 1-1.300-3.200M12.500 2.500v2.800H9.700",
  wait: "M13.500 8a5.500 5.500 0 1 1-11 0 5.500 5.500 0 0 1 11 0zM8 5v3l2 1.500",
  fork: "M8 13.500V9.500M4 2.500v2c0 2.500 4 2.500 4 5 0-2.500 4-2.500 4-5v-2",
  pen: "M3 13l.6-2.600 7-7 2 2-7 7zM9.500 4.500l2 2",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
      <path d={PATHS[name]} stroke-width={name === "more" ? 2 : undefined} />
    </svg>
  );
}

export function StopIcon() {
  return (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
      <rect x="4" y="4" width="8" height="8" rx="1" fill="currentColor" stroke="none" />
    </svg>
  );
}

/** The logo: a flight of steps with a dot at its end. */
export function Mark({ size = 20 }: { size?: number }) {
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 20 20"
      fill="none"
      stroke="currentColor"
      stroke-width="2"
      aria-hidden="true"
    >
      <path d="M2 16.5h5v-5h5v-5h4" />
      <circle cx="17.4" cy="6.5" r="1.6" fill="currentColor" stroke="none" />
    </svg>
  );
}
