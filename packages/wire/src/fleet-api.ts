/** What the API shows of the daemons that share a store. */
import { z } from 'zod'
import { record, time } from './fields.ts'

/** A daemon that shares its store, and how many sessions it works on. */
export const daemonListSchema = record({
  daemons: z
    .array(
      record({
        bootId: z.string(),
        name: z.string(),
        url: z.string().nullable(),
        version: z.string(),
        configHash: z.string(),
        state: z.enum(['live', 'draining', 'dead']),
        leaseUntil: time,
        held: z.int(),
        places: z.int(),
        startedAt: time,
      }),
    )
    .readonly(),
})
