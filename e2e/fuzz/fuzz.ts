/** Runs many cases at once, counts how they end, and reports what is wrong. */
import type { RelayApiName } from '@breakfall/model'
import { makeCase } from './generate.ts'
import type { Verdict } from './oracle.ts'
import type { Rig, Run } from './rig.ts'

export type Fuzzing = {
  /** Of the first stream; each stream after it has the next one. */
  readonly seed: number
  readonly streamsMax: number
  /** Ends the run after the streams that are under way. */
  readonly isOver: () => boolean
  readonly api?: RelayApiName | undefined
  readonly atOnce?: number
  readonly onWrong: (seed: number, run: Run) => void
}

export type Tally = Record<Verdict['end'] | 'wrong' | 'streams', number>

export async function fuzz(
  rig: Rig,
  { seed, streamsMax, isOver, api, atOnce = 256, onWrong }: Fuzzing,
): Promise<Tally> {
  const tally: Tally = { streams: 0, accepted: 0, healed: 0, unhealed: 0, broken: 0, refused: 0, wrong: 0 }
  let next = 0
  const lane = async (): Promise<void> => {
    while (next < streamsMax && !isOver()) {
      const own = seed + next++
      const run = await rig.run(makeCase({ seed: own, api }))
      tally.streams++
      if (run.verdict.wrong === undefined) tally[run.verdict.end]++
      else {
        tally.wrong++
        onWrong(own, run)
      }
    }
  }
  await Promise.all(Array.from({ length: Math.min(atOnce, streamsMax) }, lane))
  return tally
}
