/** Why a keeper could not be given a job, as a reason and a diagnostic. */
import { classify } from '@breakfall/faults'
import { noSpace, spawnRefused, workspaceChanged } from './diagnostics.ts'
import type { Refusal } from './state.ts'

export function refusalOf(error: unknown): Refusal {
  const { category, errorRaw } = classify(error, { boundary: 'box', phase: 'spawn' })
  if (category === 'file_not_found') return { reason: 'cwd_missing', diagnostic: workspaceChanged }
  if (category === 'journal_full') return { reason: 'no_space', diagnostic: noSpace(errorRaw) }
  return { reason: 'no_process', diagnostic: spawnRefused(errorRaw) }
}
