/** Runs one tool call and journals its result. The only place that knows which tool needs what. */
import { Fault, type FaultCategory, isFault } from '@breakfall/faults'
import type { ToolCall } from '../turn/state.ts'
import { runBash } from './bash.ts'
import { runCustom } from './custom-call.ts'
import { runEdit, runRead, runWrite } from './file-tools.ts'
import type { LiveSession } from './live-session.ts'
import { isMcpTool, runMcp } from './mcp-call.ts'
import { isRunnerLost, moveBox } from './move-box.ts'
import { mayUse } from './offered.ts'
import { CONTINUE, type GiveUp, giveUp, isGiveUp, type Performed } from './performed.ts'
import type { Ports } from './ports.ts'
import { failedOutcome, type ToolOutcome } from './tool-outcome.ts'
import { endedProcesses, runProcess } from './processes.ts'
import { parseCall } from './tools.ts'

export async function performCall(ports: Ports, session: LiveSession, call: ToolCall): Promise<Performed> {
  const turnId = session.fold.turn?.id ?? ''
  const outcome = await orMoved(ports, session, call)
  if (outcome === undefined) return CONTINUE
  if (isGiveUp(outcome)) return outcome
  if (outcome.outcome === 'unknown' && session.policy.outcomeUnknown === 'stop') {
    const { report } = new Fault('exec_outcome_unknown', { turnId, callId: call.callId, execId: call.execId })
    return giveUp(report, { action: 'stop', because: 'side_effects_unknown' })
  }
  return CONTINUE
}

// ---- details ----

/** The outcome, journalled. Undefined: the box has moved to another runner, where the call runs next. */
async function orMoved(ports: Ports, session: LiveSession, call: ToolCall): Promise<ToolOutcome | GiveUp | undefined> {
  try {
    const outcome = await outcomeOf(ports, session, call)
    if (isGiveUp(outcome)) return outcome
    const turnId = session.fold.turn?.id ?? ''
    const ended = await endedProcesses(ports, session)
    const text = [outcome.text, ...ended.lines].join('\n')
    await session.append({ type: 'tool-result', turnId, callId: call.callId, ...outcome, text })
    await ended.told()
    return outcome
  } catch (thrown) {
    if (!isRunnerLost(thrown) || session.signal.aborted) throw thrown
    return moveBox(ports, session, call).catch((failed: unknown) => Promise.reject(waiting(failed)))
  }
}

/** A store that is away while the box moves must not end the turn: it waits for a runner, and then tries again. */
function waiting(failed: unknown): unknown {
  if (!isFault(failed) || !AWAY.has(failed.category)) return failed
  return new Fault('runner_not_available', { facts: { detail: 'the store does not answer' }, cause: failed })
}

const AWAY: ReadonlySet<FaultCategory> = new Set([
  'journal_unreachable',
  'runner_unreachable',
] satisfies FaultCategory[])

async function outcomeOf(ports: Ports, session: LiveSession, call: ToolCall): Promise<ToolOutcome | GiveUp> {
  try {
    if (isMcpTool(call.tool)) return await runMcp(ports, session, call)
    const custom = ports.outside.custom.get(call.tool)
    if (custom !== undefined && mayUse(session.data, call.tool)) return await runCustom(ports, session, call, custom)
    const parsed = parseCall(call.tool, call.arguments, session.data.tools)
    switch (parsed.tool) {
      case 'bash':
        return await runBash(ports, session, call, parsed.given)
      case 'read':
        return await runRead(ports, session, parsed.given)
      case 'write':
        return await runWrite(ports, session, call, parsed.given)
      case 'edit':
        return await runEdit(ports, session, call, parsed.given)
      case 'process':
        return await runProcess(ports, session, parsed.given)
    }
  } catch (thrown) {
    if (isFault(thrown) && FOR_THE_MODEL.has(thrown.category)) return failedOutcome(thrown.error)
    throw thrown
  }
}

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
