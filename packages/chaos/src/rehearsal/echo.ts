/** Repeats the prompt. */
import type { Move, Turn } from './conversation.ts'

export function echo(turn: Turn): Move {
  return { reasoning: 'The user wants to hear their own words.', text: `You said: ${turn.prompt}` }
}
