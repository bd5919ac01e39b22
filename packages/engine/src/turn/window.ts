/**
 * How much the model can read, in bytes of a request: from the configuration, and from what servers said and refused. Pure.
 *
 * I1  An estimate is never trusted over a refusal: a request as long as a refused request does not fit.
 */
import type { FaultReport } from '@breakfall/faults'
import { contextSizeIn } from '@breakfall/faults/internal'
import type { Usage } from '@breakfall/wire'
import type { RequestFacts, SessionFold, WindowFacts } from './state.ts'

/** A server counted the tokens of a request of that size. */
export function withCount(facts: WindowFacts, usage: Usage | undefined, requestBytes: number | undefined): WindowFacts {
  const { value, quality } = usage?.inputTokens ?? { value: null, quality: 'unknown' }
  if (value === null || quality !== 'known' || requestBytes === undefined) return facts
  return calibrated(facts, value / requestBytes)
}

/** A server refused a request of that size. */
export function withRefusal(
  facts: WindowFacts,
  overflow: { readonly model: string; readonly requestBytes: number },
  fault: Pick<FaultReport, 'errorRaw'>,
): WindowFacts {
  const { limitTokens: tokens, requestTokens } = contextSizeIn(fault)
  const { model, requestBytes } = overflow
  const known = facts.refused?.model === model ? facts.refused : null
  const refused = {
    model,
    bytes: Math.min(requestBytes, known?.bytes ?? requestBytes),
    tokens: tokens ?? known?.tokens ?? null,
  }
  const next = { ...facts, refused }
  return requestTokens === null ? next : calibrated(next, requestTokens / requestBytes)
}

/** The longest request that the model can read. Null: not known yet. */
export function windowBytes({ window }: Pick<SessionFold, 'window'>, facts: RequestFacts): number | null {
  const refused = window.refused?.model === facts.model ? window.refused : null
  const tokens = Math.min(facts.contextTokens ?? Number.POSITIVE_INFINITY, refused?.tokens ?? Number.POSITIVE_INFINITY)
  const bytes = Math.min(
    tokens / (window.tokensPerByte ?? TOKENS_PER_BYTE),
    refused?.bytes ?? Number.POSITIVE_INFINITY, // I1
  )
  return Number.isFinite(bytes) ? Math.floor(bytes) : null
}

// ---- details ----

const TOKENS_PER_BYTE = 0.3 // English and code have about 0.25; an estimate that is too high only compacts earlier
const PLAUSIBLE = { min: 0.1, max: 1 } // a server that counts anything else does not count this request

function calibrated(facts: WindowFacts, tokensPerByte: number): WindowFacts {
  const isPlausible = tokensPerByte >= PLAUSIBLE.min && tokensPerByte <= PLAUSIBLE.max
  return isPlausible ? { ...facts, tokensPerByte } : facts
}
