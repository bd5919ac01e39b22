/** Time to pixels. Long stretches without work fold to a fixed width, so a night in the queue does not flatten the work. */
import type { Segment } from './segments.ts'

export type Fold = { readonly from: number; readonly to: number }

export type Axis = {
  readonly from: number
  readonly to: number
  readonly folds: readonly Fold[]
  /** Position of a time, from 0 to 1. */
  at(time: number): number
}

const FOLDED_ABOVE_MS = 60_000

/** Idle kinds fold above a minute, and only if they are long compared with the rest. */
export function axisOf(segments: readonly Segment[], from: number, to: number): Axis {
  const folds = foldsIn(segments, from, to)
  const idle = folds.reduce((sum, fold) => sum + fold.to - fold.from, 0)
  const busy = Math.max(1, to - from - idle)
  const foldedMs = folds.length === 0 ? 0 : Math.max(1, (busy * 0.6) / Math.max(6, folds.length)) // each about 10 %, all at most 60 %
  const length = busy + folds.length * foldedMs
  const virtual = (time: number): number => {
    let passed = Math.max(0, Math.min(time, to) - from)
    for (const fold of folds) {
      if (time <= fold.from) break
      const inside = Math.min(time, fold.to) - fold.from
      passed += (inside / (fold.to - fold.from)) * foldedMs - inside
    }
    return passed
  }
  return { from, to, folds, at: (time) => Math.min(1, Math.max(0, virtual(time) / length)) }
}

/** Round times for the scale: at most `count`, from the start. */
export function ticksOf(axis: Axis, count: number): readonly number[] {
  const span = axis.to - axis.from
  const step = STEPS_MS.find((ms) => span / ms <= count) ?? span
  const ticks: number[] = []
  for (let time = 0; time < span && ticks.length <= count; time += step) ticks.push(axis.from + time)
  return ticks.filter((time) => !axis.folds.some((fold) => time > fold.from && time < fold.to))
}

// ---- details ----

const STEPS_MS = [
  100, 200, 500, 1e3, 2e3, 5e3, 10e3, 30e3, 60e3, 120e3, 300e3, 600e3, 1_800e3, 3_600e3, 10_800e3, 43_200e3,
]

function foldsIn(segments: readonly Segment[], from: number, to: number): readonly Fold[] {
  const idle = segments
    .filter(({ kind }) => kind === 'park' || kind === 'gone' || kind === 'wait' || kind === 'silent')
    .map((segment) => ({ from: Math.max(from, segment.from), to: Math.min(to, segment.to) }))
    .filter((fold) => fold.to - fold.from > FOLDED_ABOVE_MS)
    .sort((a, b) => a.from - b.from)
  const merged: { from: number; to: number }[] = []
  for (const fold of idle) {
    const last = merged.at(-1)
    if (last !== undefined && fold.from <= last.to) last.to = Math.max(last.to, fold.to)
    else merged.push({ ...fold })
  }
  return merged
}
