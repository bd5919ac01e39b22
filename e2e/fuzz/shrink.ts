/** Makes a failing case smaller: replaces random choices by the simplest one, as long as the same thing stays wrong. */
import type { RelayApiName } from '@breakfall/model'
import type { Case } from './case.ts'
import { makeCase } from './generate.ts'
import type { Rig, Run } from './rig.ts'

const RUNS_MAX = 600
const TRIES = 2 // a wrong that depends on timing shows up now and then

export type Shrunk = { readonly run: Run; readonly runs: number }

/** Undefined if it does not happen again. */
export async function shrink(
  rig: Rig,
  seed: number,
  api: RelayApiName | undefined,
  kind: string,
): Promise<Shrunk | undefined> {
  const zeros = new Set<string>()
  const fixed = new Map<string, number>()
  let runs = 0
  let drawn = new Map<string, number>()
  const isStillWrong = async (): Promise<Run | undefined> => {
    const seen = new Map<string, number>()
    const made: Case = makeCase({ seed, api, trace: { zeros, fixed, drawn: seen } })
    for (let at = 0; at < TRIES; at++) {
      runs++
      const run = await rig.run(made)
      if (run.verdict.wrong?.kind !== kind) continue
      drawn = seen
      return run
    }
    return undefined
  }
  let best = await isStillWrong()
  if (best === undefined) return undefined
  for (let size = Number.POSITIVE_INFINITY; drawn.size < size && runs < RUNS_MAX;) {
    size = drawn.size
    for (const path of subtreesOf(drawn)) {
      if (runs >= RUNS_MAX || ![...drawn.keys()].some((one) => one === path || one.startsWith(`${path}/`))) continue
      zeros.add(path)
      const run = await isStillWrong()
      if (run === undefined) zeros.delete(path)
      else best = run
    }
  }
  for (const path of drawn.keys()) {
    for (let value = drawn.get(path) ?? 0; value > 1 && runs < RUNS_MAX; value = Math.floor(value / 2)) {
      const before = fixed.get(path)
      fixed.set(path, Math.floor(value / 2))
      const run = await isStillWrong()
      if (run !== undefined) best = run
      else {
        if (before === undefined) fixed.delete(path)
        else fixed.set(path, before)
        break
      }
    }
  }
  // Attempts that are not needed.
  for (let at = best.made.attempts.length - 1; at >= 0 && best.made.attempts.length > 1; at--) {
    const made = { ...best.made, attempts: best.made.attempts.toSpliced(at, 1) }
    const run = await rig.run(made)
    runs++
    if (run.verdict.wrong?.kind === kind) best = run
  }
  return { run: best, runs }
}

/** Every path at or above a choice, large ones first. */
function subtreesOf(drawn: ReadonlyMap<string, number>): readonly string[] {
  const all = new Set<string>()
  for (const path of drawn.keys()) {
    const names = path.split('/')
    for (let length = names.length; length > 1; length--) all.add(names.slice(0, length).join('/'))
  }
  return [...all].toSorted((a, b) => a.split('/').length - b.split('/').length || a.localeCompare(b))
}
