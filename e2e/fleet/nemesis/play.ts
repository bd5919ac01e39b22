/** Plays a script on a new fleet, and says whether the fleet kept its promises. */
import { randomSequence } from '@breakfall/chaos/internal'
import type { Checked } from './check.ts'
import { LocalFleet } from './local-fleet.ts'
import { nemesis, parseScript } from './script.ts'

const STEPS = 8 // commands of each turn

export const randomScript = (seed: number, actions: number): string => nemesis(randomSequence('fleet', seed), actions)

export async function play(
  script: string,
  options: {
    readonly isolation: 'bwrap' | 'process'
    readonly turns: number
    readonly store?: string | undefined
    readonly onAction?: (action: string) => void
    /** Ends the script early. */
    readonly signal?: AbortSignal
  },
): Promise<Checked> {
  const actions = parseScript(script)
  await using fleet = await LocalFleet.start({ ...options, steps: STEPS })
  for (const action of actions) {
    if (options.signal?.aborted === true) break
    options.onAction?.(Object.values(action).join(' '))
    await fleet.act(action)
  }
  return await fleet.end()
}
