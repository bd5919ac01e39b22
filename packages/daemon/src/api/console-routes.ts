/** The routes that bring a browser to the console: its files, and the exchange of a ticket for a token. */
import {
  consoleTicketCreateSchema,
  consoleTicketSchema,
  consoleTokenCreateSchema,
  consoleTokenSchema,
} from '@breakfall/wire'
import { bearerToken, readJson, type Route } from '@breakfall/wire/node'
import type { ConsoleDoor } from './console-door.ts'
import { type ConsolePage, sendAsset, sendPage } from './console-page.ts'

export function consoleRoutes(door: ConsoleDoor, page: ConsolePage): readonly Route[] {
  return [
    {
      method: 'get',
      path: '/',
      operationId: 'console',
      summary: 'The console, for a browser',
      open: true,
      answers: { 200: 'text/html', 503: 'text/html' },
      handle: async (context) => {
        await sendPage(context, page)
        return undefined
      },
    },
    {
      method: 'get',
      path: '/assets/{file}',
      operationId: 'consoleFile',
      summary: "One of the console's files",
      open: true,
      answers: { 200: 'application/octet-stream', 304: null },
      faults: ['not_found'],
      handle: async (context) => {
        await sendAsset(context, page)
        return undefined
      },
    },
    {
      method: 'post',
      path: '/v1/console/tickets',
      operationId: 'createConsoleTicket',
      summary: 'A ticket for a browser: valid once, for two minutes, in the address as #ticket=…',
      body: consoleTicketCreateSchema,
      answers: { 201: consoleTicketSchema },
      faults: ['forbidden'],
      handle: async ({ req }) => {
        await readJson(req, consoleTicketCreateSchema)
        return { status: 201, json: door.ticket(bearerToken(req)) }
      },
    },
    {
      method: 'post',
      path: '/v1/console/tokens',
      operationId: 'createConsoleToken',
      summary: 'A token for a ticket. It is valid for twelve hours, also after a restart',
      open: true,
      body: consoleTokenCreateSchema,
      answers: { 201: consoleTokenSchema },
      faults: ['invalid_request', 'unauthorized', 'quota_exceeded'],
      handle: async ({ req }) => {
        const { ticket } = await readJson(req, consoleTokenCreateSchema)
        return { status: 201, json: await door.exchange(ticket) }
      },
    },
  ]
}
