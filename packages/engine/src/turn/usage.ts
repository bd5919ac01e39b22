/** Adds up the tokens of a turn, as far as its events report them. */
import { addUsage as sumOf } from '@breakfall/model/internal'
import type { Usage } from '@breakfall/wire'

export const addUsage = (sum: Usage, more: Usage | undefined): Usage => (more === undefined ? sum : sumOf(sum, more))
