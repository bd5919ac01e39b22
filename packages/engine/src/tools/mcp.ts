/**
 * The tools of MCP servers.
 *
 * I1  The journal has the call before it leaves, and every repetition before that leaves.
 * I2  A call that left and got no answer is `unknown` and not repeated, unless the configuration trusts the tool and the tool
 *     says that repeating does no harm: then it is repeated once.
 * I3  A task's handle is in the journal before it is polled. Whoever recovers the turn polls the same task.
 * I4  A question of the server parks the turn while the call stays open. If the process ends meanwhile, a call of the 2026 protocol is
 *     continued with the answer; an earlier one is `unknown`, because only its open request could take the answer.
 */
import type { CallEnd, Continues, McpAnswer, McpServer, ToolCallOptions } from '@breakfall/mcp'
import { Fault } from '@breakfall/faults'
import type { McpServers, MissingTools } from './mcp-servers.ts'
import type { ToolCall } from '../turn/state.ts'
import type { OwnedSession } from '../session/owned-session.ts'
import { forModel } from './output.ts'
import {
  CANCELLED_LATE,
  notRun,
  type StoppedCall,
  stoppedBefore,
  stoppedLate,
  type ToolOutcome,
  unknownOutcome,
} from '../turn/tool-outcome.ts'
import type { AsksPerson } from '../turn/step-result.ts'
import { mayUse, type OfferedTool, type ToolChoice, type ToolSource } from './source.ts'

export class McpTools implements ToolSource {
  readonly #servers: McpServers
  readonly needsBox = false

  constructor(servers: McpServers) {
    this.#servers = servers
  }

  get version(): number {
    return this.#servers.version
  }

  /** A server may begin to offer it later. */
  knows(name: string): boolean {
    return name.startsWith('mcp__')
  }

  answers(tool: string): boolean {
    return tool.startsWith('mcp__')
  }

  offered(choice: ToolChoice): readonly OfferedTool[] {
    return this.#servers.tools
      .filter(({ name, server }) => mayUse(choice, name, server))
      .map(({ name, description, inputSchema: parameters, hash: definition }) => ({
        spec: { type: 'function', function: { name, description, parameters } },
        definition,
      }))
  }

  whyAsk(_session: OwnedSession, tool: string): string | null {
    return this.#servers.tool(tool)?.isSafe === true
      ? null
      : 'it runs outside the sandbox, and the configuration does not trust it as read-only'
  }

  mayHaveLeft({ sent }: ToolCall): boolean {
    return sent.times > 0
  }

  async stop(_session: OwnedSession, { sent }: ToolCall, fault: Fault): Promise<StoppedCall> {
    return sent.times === 0 ? stoppedBefore(fault) : stoppedLate(fault)
  }

  async run(session: OwnedSession, call: ToolCall): Promise<ToolOutcome | AsksPerson> {
    const server = this.#servers.serverOf(call.tool)
    if (server === undefined || !mayUse(session.data, call.tool, server.name)) return notRun(noSuchTool(call.tool))
    const { taskId } = call.sent
    const { signal } = session
    if (taskId !== undefined) {
      const end = await server.follow({ taskId, pollMs: undefined }, signal) // I3
      return outcomeOf(session, end, signal)
    }
    const { callId } = call
    const question = questionOf(call)
    const known = session.held.get(callId)
    if (known === undefined && question?.continues !== undefined && question.answer === undefined) {
      const decline = (): void => void session.hold(callId, async () => unknownOutcome(ASKED_BEFORE))
      return { kind: 'asks', call, question, decline } // it was resumed without an answer
    }
    const held = known ?? session.hold(callId, (ask, stopped) => this.#call(session, server, call, { ask, stopped }))
    if (question?.answer !== undefined) held.answer(question.id, question.answer)
    const stop = (): void => held.stop(signal.reason)
    if (signal.aborted) stop()
    signal.addEventListener('abort', stop)
    try {
      const asked = await held.question()
      if (asked !== undefined) {
        const decline = (): void => held.answer(asked.id, { action: 'decline' })
        return { kind: 'asks', call, question: { ...asked, server: server.name }, decline }
      }
      session.held.drop(callId) // a turn that now waits for credentials makes another
      return await held.outcome
    } finally {
      signal.removeEventListener('abort', stop)
    }
  }

  async #call(session: OwnedSession, server: McpServer, call: ToolCall, holding: Holding): Promise<ToolOutcome> {
    const { ask, stopped: signal } = holding
    const { callId } = call
    const turnId = session.currentTurn.id
    const { id: open, continues: before, answer } = questionOf(call) ?? {}
    const continues = open === undefined || answer === undefined ? undefined : continuedWith(before, answer)
    let sends = call.sent.times
    const mayRepeat = (): boolean => sends < SENDS_MAX && this.#servers.tool(call.tool)?.mayRepeat === true // I2
    if (sends > 0 && server.state !== 'ready')
      await server.settled(AbortSignal.any([signal, session.clock.timeout(server.awayMs)]))
    if (sends > 0 && continues === undefined && !mayRepeat())
      return unknownOutcome(open === undefined ? 'Breakfall was interrupted while it ran' : ASKED_BEFORE)
    const written = { type: 'tool-output', turnId, callId, stream: 'stdout' } as const
    const sent = (more: { readonly taskId?: string; readonly refused?: boolean } = {}): Promise<unknown> =>
      session.append({ ...written, text: '', sent: { server: server.name, ...more } })
    for (;;) {
      const end = await server.call(
        { tool: call.tool, arguments: call.arguments, hash: call.definition, key: call.execId, continues },
        {
          signal,
          onSent: async () => {
            sends += 1
            await sent() // I1
            session.calls.starting(callId)
            session.observer.reached('after:sent')
          },
          onUnsent: async () => {
            sends -= 1
            await sent({ refused: true })
          },
          onTask: async (id) => {
            await sent({ taskId: id }) // I3
            session.observer.reached('after:task')
          },
          onQuestion: ask,
          onLate: ({ isError, text }) => {
            const late = isError ? 'failed' : 'ok'
            session
              .append({ ...written, text: forModel(session.secrets.scrub(text)), late })
              .catch((err: unknown) =>
                session.observer.log.debug({ err, callId }, 'an answer came too late for its session'),
              )
          },
        },
      )
      if (end.kind === 'lost' && mayRepeat()) continue
      if (end.kind === 'refused' && end.fault.category === 'mcp_auth_failed') {
        if (sends > call.sent.times) await sent({ refused: true })
        throw end.fault // the turn waits for credentials
      }
      return outcomeOf(session, end, signal)
    }
  }

  /** Changes whenever the configuration of a server does. Reveals nothing about it. */
  get fingerprint(): string {
    return this.#servers.fingerprint
  }

  /** Returns when every server is ready, has failed or keeps failing to start, at the latest after `graceMs`. */
  settled(graceMs: number): Promise<void> {
    return this.#servers.settled(graceMs)
  }

  /** Servers that the session may use and that are not ready, with the reason. */
  missing({ outside }: ToolChoice): readonly MissingTools[] {
    return this.#servers.missing.filter(
      ({ server }) => outside?.some((name) => name === `mcp__${server}` || name.startsWith(`mcp__${server}__`)) ?? true,
    )
  }

  /** Waits for the servers that the session may use. Returns why it still has none of their tools. `first`: the first that it wants. */
  async awaitServers(session: OwnedSession, first: string): Promise<Fault> {
    await this.#servers.settled(0) // its code may be loading
    const servers = this.missing(session.data).flatMap(({ server }) => this.#servers.server(server) ?? [])
    await Promise.all(
      servers.map((server) => server.settled(AbortSignal.any([session.signal, session.clock.timeout(server.awayMs)]))),
    )
    session.signal.throwIfAborted()
    const faults = servers.map(
      ({ name, fault, missing }) =>
        fault ?? new Fault('mcp_server_failed', { facts: { name, detail: missing ?? 'it offers no tools' } }),
    )
    return (
      faults.find(({ report }) => report.next === 'park') ??
      faults[0] ??
      new Fault('tool_not_offered', {
        facts: {
          name: first.slice(0, 100),
          detail:
            this.#servers.serverOf(first) === undefined
              ? 'the configuration does not define it'
              : 'its server does not offer it',
        },
        message: { advice: 'Correct the name or the configuration: the session has no other tools.' },
      })
    )
  }
}

// ---- details ----

type Holding = { readonly ask: NonNullable<ToolCallOptions['onQuestion']>; readonly stopped: AbortSignal }

const ASKED_BEFORE = 'its server asked a question, and Breakfall was restarted before it was answered'

/** The question that the call waits with, and the answer if a person has given it. */
function questionOf({ approval }: ToolCall) {
  if (approval?.question === undefined) return undefined
  const { question, continues, decision, value = {} } = approval
  const accepted = { action: 'accept', content: value } as const
  const answer = decision === null ? undefined : decision === 'deny' ? ({ action: 'decline' } as const) : accepted
  return { ...question, continues, answer }
}

/** Undefined: only the process that made the call could continue it. */
const continuedWith = (before: Continues | undefined, answer: McpAnswer): Continues | undefined =>
  before?.open === undefined
    ? undefined
    : { state: before.state, responses: { ...before.responses, [before.open]: answer } }

const SENDS_MAX = 2

const noSuchTool = (tool: string): string =>
  new Fault('tool_not_offered', { facts: { name: tool.slice(0, 100) } }).error

function outcomeOf(session: OwnedSession, end: CallEnd, signal: AbortSignal): ToolOutcome {
  switch (end.kind) {
    case 'answered':
      return { outcome: end.isError ? 'failed' : 'ok', text: forModel(session.secrets.scrub(end.text)) }
    case 'refused':
      return notRun(end.fault.error)
    case 'lost':
      return unknownOutcome(end.fault.report.message?.happened ?? end.fault.error) // its advice is for people
    case 'task':
      return unknownOutcome('its task was not followed')
    case 'cancelled':
      signal.throwIfAborted() // the cancel, the deadline or the shutdown says what follows
      return CANCELLED_LATE
  }
}
