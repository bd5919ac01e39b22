/** What the console needs besides sessions and turns: tickets and tokens. */
import { z } from 'zod'
import { body, record, text, time } from './fields.ts'

/** Valid once, for two minutes: the part of an address that a person opens. */
export const consoleTicketSchema = record({ ticket: z.string(), expiresAt: time })
export type ConsoleTicket = z.infer<typeof consoleTicketSchema>
export const consoleTicketCreateSchema = body({})

export const consoleTokenCreateSchema = body({ ticket: text(200, 'a ticket') })
export const consoleTokenSchema = record({ token: z.string(), expiresAt: time })
export type ConsoleToken = z.infer<typeof consoleTokenSchema>
