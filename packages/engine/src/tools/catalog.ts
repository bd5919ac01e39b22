/** All tools: which of them a session's model is offered, which calls wait for a yes, and how a call runs and ends. */
import { Fault, type FaultCategory, isFault } from '@breakfall/faults'
import { TOOL_NAMES, type ToolName } from '@breakfall/wire'
import { invalidRequest } from '@breakfall/wire/internal'
import type { Clock } from '../clock.ts'
import type { ConfigReader } from '../live-config.ts'
import type { Log } from '../log.ts'
import type { EngineOptions, LiveConfig } from '../options.ts'
import { McpServers, type MissingTools } from './mcp-servers.ts'
import type { Runners } from '../runner/runners.ts'
import type { Secrets } from '../secrets.ts'
import type { OfferedTools, ToolCall } from '../turn/state.ts'
import { ensureBox, isBoxGone } from '../boxes/box.ts'
import { BuiltInTools, CustomTools } from './built-in-tools.ts'
import { changedFiles } from './changed-files.ts'
import type { LeftBehind } from '../session/call-ledger.ts'
import type { OwnedSession } from '../session/owned-session.ts'
import { McpTools } from './mcp.ts'
import { isRunnerLost, moveBox } from '../boxes/move-box.ts'
import { endedProcesses } from './processes.ts'
import { callRunner } from '../boxes/runner-call.ts'
import {
  type AsksPerson,
  CONTINUE,
  type GiveUp,
  giveUp,
  isGiveUp,
  isStep,
  type StepResult,
} from '../turn/step-result.ts'
import { failedOutcome, type StoppedCall, type ToolOutcome } from '../turn/tool-outcome.ts'
import type { ToolChoice, ToolSource } from './source.ts'

type CatalogParts = {
  readonly builtIn: BuiltInTools
  readonly custom: CustomTools
  readonly mcp: McpTools
  readonly runners: Runners
  /** How long the start of a turn waits for servers of tools. */
  readonly graceMs: number
}

export function toolsFor(
  { stateDir, mcpLimits }: EngineOptions,
  parts: {
    readonly config: ConfigReader
    readonly runners: Runners
    readonly clock: Clock
    readonly secrets: Secrets
    readonly log: Log
    readonly graceMs: number
  },
): { readonly tools: ToolCatalog; readonly mcpServers: McpServers } {
  const { config, runners, clock, secrets, log, graceMs } = parts
  const mcpServers = new McpServers({ stateDir, log, clock, secrets, limits: mcpLimits })
  const custom = new CustomTools(runners)
  const configure = (read: LiveConfig): void => {
    mcpServers.configure(read.mcp)
    custom.configure(read.tools)
  }
  config.onRead = configure
  configure(config.last)
  const tools = { builtIn: new BuiltInTools(runners), custom, mcp: new McpTools(mcpServers), runners, graceMs }
  return { tools: new ToolCatalog(tools), mcpServers }
}

export class ToolCatalog {
  readonly #parts: CatalogParts
  /** The first that answers to a name runs the call. */
  readonly #sources: readonly ToolSource[]

  constructor(parts: CatalogParts) {
    this.#parts = parts
    this.#sources = [parts.mcp, parts.custom, parts.builtIn]
  }

  // ---- which tools there are ----

  /** What the creator of a session names, built-in tools apart. A list names every tool that the session may use; without one, it may use all tools. */
  chosen(names: readonly string[] | undefined): {
    readonly tools: readonly ToolName[]
    readonly outside: readonly string[] | undefined
    readonly needsBox: boolean
  } {
    if (names === undefined) return { tools: [...TOOL_NAMES], outside: undefined, needsBox: true }
    const sources = names.map((name) => this.#sources.find((source) => source.knows(name)))
    const unknown = names.find((_, index) => sources[index] === undefined)
    if (unknown !== undefined) {
      const expected = `${TOOL_NAMES.join(', ')}, mcp__SERVER, mcp__SERVER__TOOL, or a tool that [tools.NAME] defines`
      const got = JSON.stringify(unknown.slice(0, 100))
      throw invalidRequest([{ field: `tools.${names.indexOf(unknown)}`, expected, got }])
    }
    const tools = TOOL_NAMES.filter((name) => names.includes(name))
    const outside = names.filter((name) => !TOOL_NAMES.some((known) => known === name))
    return { tools, outside, needsBox: sources.some((source) => source?.needsBox === true) }
  }

  /** The tools that the session's model is offered now. The same value as long as nothing changes. */
  offered(session: OwnedSession): OfferedTools {
    const { builtIn, custom, mcp } = this.#parts
    const { data } = session
    return session.offered.get([custom.version, mcp.version, data.tools, data.outside], () => {
      const all = [builtIn, custom, mcp].flatMap((source) => source.offered(data))
      const specs = all.map(({ spec }) => spec)
      const definitions = all.flatMap(({ spec, definition }) =>
        definition === undefined ? [] : [[spec.function.name, definition] as const],
      )
      return { specs, definitions: new Map(definitions) }
    })
  }

  /**
   * The same, for a request to the model. A session that wants only tools from outside, of which none is there, waits for their
   * servers: without a tool, a model makes things up. Throws a fault that parks the turn if they stay away.
   */
  async onOffer(session: OwnedSession): Promise<OfferedTools> {
    const offered = this.offered(session)
    const [wanted] = session.data.outside ?? []
    if (wanted === undefined || offered.specs.length > 0) return offered
    const fault = await this.#parts.mcp.awaitServers(session, wanted)
    const later = this.offered(session)
    if (later.specs.length > 0) return later
    throw fault.with({ next: 'park' })
  }

  /** Waits for servers of tools at the start of a turn, but no longer than the grace. */
  async settled({ outside }: ToolChoice): Promise<void> {
    if (outside?.length !== 0) await this.#parts.mcp.settled(this.#parts.graceMs)
  }

  /** Servers that the session may use and that are not ready, with the reason. */
  missing(choice: ToolChoice): readonly MissingTools[] {
    return this.#parts.mcp.missing(choice)
  }

  /** Changes whenever what a turn may wait for outside does. */
  get fingerprint(): string {
    return this.#parts.mcp.fingerprint
  }

  // ---- calls ----

  /** Why this call needs a yes, or null if it does not, as far as that is known. */
  approvalFor(session: OwnedSession, call: ToolCall): string | null {
    return this.#whyAsk(session, call) ?? null
  }

  /** Runs the call and journals its result. */
  async run(session: OwnedSession, call: ToolCall): Promise<StepResult> {
    const outcome = await this.#runOrMoveBox(session, call)
    if (outcome === undefined) return CONTINUE
    if (isStep(outcome)) return outcome
    if (outcome.outcome === 'unknown' && session.policy.outcomeUnknown === 'stop') {
      const { callId, execId } = call
      const { report } = new Fault('exec_outcome_unknown', { turnId: session.fold.turn?.id ?? '', callId, execId })
      return giveUp(report, { action: 'stop', because: 'side_effects_unknown' })
    }
    return CONTINUE
  }

  /** Whether a call that an earlier process left open can have left it. */
  readonly mayHaveLeft = (call: ToolCall, data: LeftBehind): boolean =>
    this.#sourceOf(call, data).mayHaveLeft(call, data)

  /** The turn is ending with this fault: stops the call, and says what became of it. */
  stop(session: OwnedSession, call: ToolCall, fault: Fault): Promise<StoppedCall> {
    return this.#sourceOf(call, session.data).stop(session, call, fault)
  }

  /** Which files the turn changed. `stopped`: do not wait any longer. */
  changedFiles(session: OwnedSession, stopped?: AbortSignal): ReturnType<typeof changedFiles> {
    return changedFiles(this.#parts.runners, session, stopped)
  }

  // ---- details, in the order they are used above ----

  #whyAsk(session: OwnedSession, call: ToolCall): string | null | undefined {
    const { approve } = session.policy
    if (approve === 'never') return null
    if (approve === 'always') return 'the policy asks before every call'
    return this.#sourceOf(call, session.data).whyAsk(session, call.tool)
  }

  /** The outcome, journalled. Undefined: the call does not run yet, and the state of the session says what is first. */
  async #runOrMoveBox(session: OwnedSession, call: ToolCall): Promise<ToolOutcome | GiveUp | AsksPerson | undefined> {
    const { runners } = this.#parts
    try {
      const outcome = await this.#outcomeOf(session, call)
      if (outcome === undefined || isStep(outcome)) return outcome
      const turnId = session.fold.turn?.id ?? ''
      const ended = await endedProcesses(runners, session)
      const text = [outcome.text, ...ended.lines].join('\n')
      await session.append({ type: 'tool-result', turnId, callId: call.callId, ...outcome, text })
      await ended.acknowledged()
      return outcome
    } catch (thrown) {
      if (!isRunnerLost(thrown) || session.signal.aborted) throw thrown
      return moveBox(runners, session, call).catch((failed: unknown) => Promise.reject(waiting(failed)))
    }
  }

  /** The level of a box is known when the box is there. So it is made before a call that needs a yes at some levels: then `next` asks. */
  async #levelFound(session: OwnedSession, call: ToolCall): Promise<'known' | GiveUp | undefined> {
    if (call.approval != null || this.#whyAsk(session, call) !== undefined) return 'known'
    const { runners } = this.#parts
    try {
      const box = await callRunner(runners, session, (client, id) => ensureBox(runners, session, client, id))
      if (isGiveUp(box)) return box
    } catch (thrown) {
      if (!isBoxGone(thrown)) throw thrown // the call makes another one
    }
    return this.approvalFor(session, call) === null ? 'known' : undefined
  }

  async #outcomeOf(session: OwnedSession, call: ToolCall): Promise<ToolOutcome | GiveUp | AsksPerson | undefined> {
    try {
      const found = await this.#levelFound(session, call)
      if (found !== 'known') return found
      return await this.#sourceOf(call, session.data).run(session, call)
    } catch (thrown) {
      if (isFault(thrown) && FOR_THE_MODEL.has(thrown.category)) return failedOutcome(thrown.error)
      throw thrown
    }
  }

  #sourceOf({ tool }: ToolCall, choice: ToolChoice): ToolSource {
    return this.#sources.find((source) => source.answers(tool, choice)) ?? this.#parts.builtIn
  }
}

// ---- details ----

/** A store that is away while the box moves must not end the turn: it waits for a runner, and then tries again. */
function waiting(failed: unknown): unknown {
  if (!isFault(failed) || !AWAY.has(failed.category)) return failed
  return new Fault('runner_not_available', { facts: { detail: 'the store does not answer' }, cause: failed })
}

const AWAY: ReadonlySet<FaultCategory> = new Set([
  'journal_unreachable',
  'runner_unreachable',
] satisfies FaultCategory[])

/** Mistakes in the call itself, which the model can see and fix. The engine handles everything else. */
const FOR_THE_MODEL: ReadonlySet<FaultCategory> = new Set([
  'invalid_request',
  'spawn_failed',
  'file_not_found',
  'not_found',
  'forbidden',
  'payload_too_large',
  'range_not_satisfiable',
  'precondition_failed',
  'quota_exceeded',
] satisfies FaultCategory[])
