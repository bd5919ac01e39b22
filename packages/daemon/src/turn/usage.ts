/** Adds up the tokens of a turn, as far as its events tell them. */
import { addUsage as sumOf } from '@breakfall/model'
import { type Usage, usageSchema } from '@breakfall/wire'

export function addUsage(sum: Usage, more: unknown): Usage {
  const parsed = usageSchema.safeParse(more)
  return parsed.success ? sumOf(sum, parsed.data) : sum
}
