/** The score card of a trial, as lines of text, and whether it is good enough. Pure. */
import type { Verdict } from '@breakfall/chaos'
import { Fault } from '@breakfall/faults'
import type { Style } from '../../terminal/output.ts'

export type Cell = {
  readonly fault: string
  readonly through: string
  readonly dialect: string | null
  readonly verdict: Verdict
  readonly why: string
  readonly requests: number
  readonly ms: number
}

/** What the reader of a card wants to know about a fault, before its name. */
const MEANINGS: Readonly<Record<string, string>> = {
  fin: 'the socket is closed after some text',
  reset: 'the connection is reset after some text',
  early_end: 'the answer ends early, without an error',
  in_band_error: 'an error event after some text',
  cut_tool_arguments: "a tool call's arguments are cut",
  stall: 'the stream goes silent after some text',
  reset_before_headers: 'the connection is reset before the answer',
  'status:429': 'the server answers 429: too many requests',
  'status:503': 'the server answers 503: unavailable',
  refuse: 'the server refuses connections for a while',
}

const NAMES: Readonly<Record<Verdict, string>> = {
  exact: 'exact',
  echo: 'shown twice',
  wrong: 'wrong',
  error: 'error',
  hang: 'hang',
}

export const STYLES: Readonly<Record<Verdict, Style>> = {
  exact: 'green',
  echo: 'yellow',
  wrong: 'red',
  error: 'yellow',
  hang: 'red',
}

export const verdictName = (verdict: Verdict): string => NAMES[verdict]

export function meaningOf(fault: string): string {
  const [kind = '', first = ''] = fault.split(':')
  return MEANINGS[`${kind}:${first}`] ?? MEANINGS[kind] ?? fault
}

/** One row per fault with a verdict per column, and below it why a run was not exact. */
export function cardRows(
  faults: readonly string[],
  columns: readonly string[],
  cells: readonly Cell[],
): readonly {
  readonly title: string
  readonly verdicts: readonly (Verdict | null)[]
  readonly whys: readonly string[]
}[] {
  return faults.map((fault) => {
    const found = columns.map((through) => cells.find((cell) => cell.fault === fault && cell.through === through))
    const whys = found.flatMap((cell, i) => {
      if (cell === undefined || cell.verdict === 'exact') return []
      return [columns.length > 1 ? `${columns[i]}: ${cell.why}` : cell.why]
    })
    return { title: meaningOf(fault), verdicts: found.map((cell) => cell?.verdict ?? null), whys }
  })
}

export const scoreOf = (cells: readonly Cell[], through: string): { readonly exact: number; readonly of: number } => {
  const counted = cells.filter((cell) => cell.through === through)
  return { exact: counted.filter((cell) => cell.verdict === 'exact').length, of: counted.length }
}

/** `--require exact=100`: which share of the runs must have which verdict, in per cent. */
export type Requirement = { readonly verdict: 'exact'; readonly percent: number }

export function readRequirement(text: string): Requirement {
  const [, percent] = /^exact=(\d{1,3})%?$/.exec(text.trim()) ?? []
  if (percent === undefined || Number(percent) > 100) {
    const errors = [{ field: '--require', expected: 'exact=N with N from 0 to 100', got: JSON.stringify(text) }]
    throw new Fault('invalid_request', { error: `--require must be exact=N with N from 0 to 100, got ${text}`, errors })
  }
  return { verdict: 'exact', percent: Number(percent) }
}

export const isMet = ({ percent }: Requirement, score: { readonly exact: number; readonly of: number }): boolean =>
  score.of > 0 && score.exact * 100 >= percent * score.of
