/** What brings a browser to the console: its files, and the exchange of a ticket for a token. */
import { bearerToken } from '@breakfall/wire/node'
import type { ConsoleAuth } from './console-auth.ts'
import type { ConsolePage } from '../options.ts'
import { sendAsset, sendPage } from './console-page.ts'
import type { SomeHandlers } from './routes.ts'

export function consoleHandlers(auth: ConsoleAuth, page: ConsolePage) {
  return {
    console: (context) => sendPage(context, page),
    consoleFile: (context) => sendAsset(context, page),
    createConsoleTicket: async ({ body, req }) => {
      await body()
      return auth.ticket(bearerToken(req))
    },
    createConsoleToken: async ({ body }) => auth.exchange((await body()).ticket),
  } satisfies SomeHandlers
}
