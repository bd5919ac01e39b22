/**
 * Relays one request to a model server and its answer back, healed: failures before the first content are retried unseen;
 * later breaks are continued if that can be done honestly, else the answer ends as a broken one does. The healer behind
 * `resilientFetch` and the gateway.
 *
 * I1  Never a silent cut, never doubled text, never a cut tool call.
 * I2  Exactly one head, then a body that ends properly, with an error that the API's clients understand, or visibly broken.
 */
import { classify, type Policy } from '@breakfall/faults'
import { systemDice, systemNow } from '../lib/clock.ts'
import { Lifetime } from '../lib/lifetime.ts'
import { unboundedShare } from '@breakfall/wire/node'
import {
  RELAY_DEFAULTS,
  type RelayOptions,
  type RelayOutcome,
  type RelayRequest,
  type RelaySink,
  type ReturnedHeaders,
  type RelayTarget,
  type ResolvedRelayOptions,
} from './relay.ts'
import { errorAnswer, errorFrames } from './relay-error.ts'
import { modelOf } from './relay-request.ts'
import { RelayRun } from './relay-run.ts'
import { StreamRelay } from './relay-stream.ts'
import { WholeRelay } from './relay-whole.ts'
import { resolvePolicy } from '../contract/resolve-policy.ts'
import { ChatSpan } from '../telemetry/chat-span.ts'
import { traceparentIn } from '../telemetry/spans.ts'
import { totalUsage } from '../attempt/usage.ts'
import { Conversations } from '../repair/conversations.ts'

/** Never throws: the sink and the outcome say what happened. */
export async function relayAnswer(
  request: RelayRequest,
  targets: readonly RelayTarget[],
  sink: RelaySink,
  options: RelayOptions = {},
): Promise<RelayOutcome> {
  const guarded = new GuardedSink(sink)
  try {
    return await relay(request, targets, guarded, options)
  } catch (thrown) {
    const fault = classify(thrown, { boundary: 'model', signal: options.signal }).report
    const answer = errorAnswer(request.api, fault, undefined)
    if (guarded.headSent) guarded.write(errorFrames(request.api, fault)) // I2
    else {
      guarded.head(answer.status, answer.headers)
      guarded.write(answer.body)
    }
    guarded.end()
    return { status: answer.status, fault, ledger: [], contentSent: false, repairs: [] }
  }
}

// ---- details ----

async function relay(
  request: RelayRequest,
  targets: readonly RelayTarget[],
  sink: RelaySink,
  options: RelayOptions,
): Promise<RelayOutcome> {
  const now = options.now ?? systemNow
  const policy = resolvePolicy(options.policy)
  const deadlineAt = policy.deadlineMs === null ? null : now() + policy.deadlineMs
  const lifetime = new Lifetime(options.signal, deadlineAt, now)
  const chat = chatSpan(request, targets[0])
  const resolved = { ...resolve(options, policy, lifetime.signal, deadlineAt), chat }
  const isStream = request.stream ?? request.json['stream'] === true
  const client = isStream ? new StreamRelay(request, targets, sink, resolved) : new WholeRelay(request, sink)
  try {
    const outcome = await new RelayRun(request, targets, client, resolved).run()
    chat.end({ error: outcome.fault?.category, usage: totalUsage(outcome.ledger) })
    return outcome
  } catch (thrown) {
    chat.end({ error: 'other' })
    throw thrown
  } finally {
    client.sent.stop()
    lifetime.dispose()
  }
}

/** A child of the client's own span, if the client sent one. */
function chatSpan(request: RelayRequest, target: RelayTarget | undefined): ChatSpan {
  const parent = traceparentIn(request.headers['traceparent'])
  const model = target === undefined ? '' : modelOf(request, target)
  return new ChatSpan({ api: request.api, model, baseUrl: target?.baseUrl ?? '', parent })
}

/** Remembers whether the head went out, so even a bug of ours gets an answer. */
class GuardedSink implements RelaySink {
  headSent = false
  readonly #sink: RelaySink

  constructor(sink: RelaySink) {
    this.#sink = sink
  }

  head(status: number, headers: ReturnedHeaders): void {
    this.headSent = true
    this.#sink.head(status, headers)
  }

  write(chunk: string | Buffer): boolean {
    return this.#sink.write(chunk)
  }

  drained(): Promise<void> {
    return this.#sink.drained()
  }

  end(): void {
    this.#sink.end()
  }

  get cut(): RelaySink['cut'] {
    return this.#sink.cut
  }
}

function resolve(
  options: RelayOptions,
  policy: Policy,
  signal: AbortSignal,
  deadlineAt: number | null,
): Omit<ResolvedRelayOptions, 'chat'> {
  return {
    policy,
    deadlineAt,
    hold: options.hold ?? RELAY_DEFAULTS.hold,
    signal,
    now: options.now ?? systemNow,
    dice: options.dice ?? systemDice,
    pingMs: options.pingMs ?? RELAY_DEFAULTS.pingMs,
    holdBytesMax: options.holdBytesMax ?? RELAY_DEFAULTS.holdBytesMax,
    holdMs: options.holdMs ?? RELAY_DEFAULTS.holdMs,
    empty: options.empty ?? RELAY_DEFAULTS.empty,
    onEvent: options.onEvent ?? ignore,
    repair: options.repair ?? 'auto',
    conversations: options.conversations ?? new Conversations(options.now ?? systemNow),
    memory: options.memory ?? unboundedShare(),
  }
}

const ignore = (): void => undefined
