/** Says back what was said. */
import type { Move, Turn } from './conversation.ts'

export function echo(turn: Turn): Move {
  return { reasoning: 'The person wants to hear their own words.', text: `You said: ${turn.prompt}` }
}
