/** Opens the browser's websockets: each with its own ticket, since a browser sends no headers with one. */

import type { Connection, Credential, Dial, Failure } from "../client/index.ts";
import type { Grant } from "./index.ts";

/** Codes that require a new sign-in. */
const SIGNED_OUT = new Set(["unauthorized", "auth_expired", "session_expired", "login_required", "sign_in_refused"]);

export interface TicketApi {
  makeTicket(): Promise<Grant>;
}

/** Return the dial of a stage; `url` is the fallback if a grant does not name one. */
export function dialBrowser(api: TicketApi, url: string): Dial {
  return {
    open(handlers): Connection {
      let socket: WebSocket | null = null;
      let over = false;
      const end = (run: () => void) => {
        if (over) return;
        over = true;
        run();
      };
      const listen = (grant: Grant) => {
        if (over) return;
        const opened = new WebSocket(addressOf(grant, url));
        socket = opened;
        opened.onopen = () => handlers.open();
        opened.onmessage = (event) => handlers.message(String(event.data));
        opened.onclose = (event) => end(() => handlers.closed(event.code, event.reason));
      };
      api.makeTicket().then(listen, (error: unknown) => end(() => handlers.failed(failureOf(error))));
      return {
        send(text) {
          if (socket?.readyState === WebSocket.OPEN) socket.send(text);
        },
        close() {
          over = true;
          if (!socket) return;
          socket.onmessage = null;
          socket.close();
        },
      };
    },
  };
}

/** Return the credential that renews an open connection with a ticket for a fresh token. */
export function credentialOf(api: TicketApi, expiresAtS: () => number): Credential {
  return { expiresAtS, ticket: async () => (await api.makeTicket()).ticket };
}

function addressOf(grant: Grant, url: string): string {
  const address = new URL(grant.url || url);
  address.searchParams.set("ticket", grant.ticket);
  return address.href;
}

function failureOf(error: unknown): Failure {
  const { code = "", message = "" } = error as Partial<Failure>;
  return { code: SIGNED_OUT.has(code) ? "unauthorized" : "socket_unreachable", message };
}
