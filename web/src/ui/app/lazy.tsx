/** Views that are loaded when they are first looked at. */

import type { ComponentType } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { BundleFrame } from "../../preview/index.ts";
import { parseRoute, type Route } from "../route.ts";
import type { Page } from "../store/page.ts";
import { useStore } from "../store/store.ts";

interface InspectorProps {
  readonly conversation: string;
  readonly turn: string;
  readonly iteration: number;
  readonly view: string;
  readonly to: string;
  readonly letters: boolean;
  readonly api: Page["api"];
  readonly navigate: (address: string) => void;
}

export function Inspection({ page, route }: { page: Page; route: Route & { is: "timeline" } }) {
  const [Inspector, setInspector] = useState<ComponentType<InspectorProps> | null>(null);
  useEffect(() => {
    let shown = true;
    void import("../../inspect/index.tsx").then((module) => shown && setInspector(() => module.default));
    return () => {
      shown = false;
    };
  }, []);
  const { letters } = useStore(page.settings);
  const navigate = useMemo(
    () => (address: string) => {
      const [path = "", query = ""] = address.split("?");
      const next = parseRoute(path, query);
      if (next) page.go(next);
    },
    [page],
  );
  if (!Inspector) return <div class="sheet" aria-busy="true" />;
  const { conversation, turnId, iteration, view, to } = route;
  return (
    <Inspector
      conversation={conversation}
      turn={turnId}
      iteration={iteration}
      view={view}
      to={to}
      letters={letters}
      api={page.api}
      navigate={navigate}
    />
  );
}

export function BundleView({ page, bundle }: { page: Page; bundle: string }) {
  const token = useMemo(() => () => page.auth.token(), [page]);
  return <BundleFrame key={bundle} bundle={bundle} httpUrl={page.config.http_url} token={token} />;
}
