/** The tools that run in the session's box: the built-in ones, and the user's own commands. */
import type { Fault } from '@breakfall/faults'
import { TOOL_NAMES } from '@breakfall/wire'
import type { CustomToolConfig } from '../options.ts'
import type { Runners } from '../runner/runners.ts'
import type { ToolCall } from '../turn/state.ts'
import { runBash } from './bash.ts'
import { runEdit, runRead, runWrite } from './file-tools.ts'
import type { LeftBehind } from '../session/call-ledger.ts'
import type { OwnedSession } from '../session/owned-session.ts'
import { runProcess } from './processes.ts'
import type { GiveUp } from '../turn/step-result.ts'
import { stopBoxCall } from './stop-call.ts'
import { notRun, type StoppedCall, type ToolOutcome } from '../turn/tool-outcome.ts'
import { mayUse, type OfferedTool, type ToolChoice, type ToolSource } from './source.ts'
import { parseCall, toolSpecs } from './arguments.ts'

export class BuiltInTools implements ToolSource {
  readonly #runners: Runners
  readonly version = 0
  readonly needsBox = true

  constructor(runners: Runners) {
    this.#runners = runners
  }

  knows(name: string): boolean {
    return TOOL_NAMES.some((known) => known === name)
  }

  /** Also names that nothing else answers to: the refusal lists the tools. */
  answers(): boolean {
    return true
  }

  offered({ tools }: ToolChoice): readonly OfferedTool[] {
    return toolSpecs(tools).map((spec) => ({ spec }))
  }

  whyAsk(session: OwnedSession, tool: string): string | null | undefined {
    return tool === 'read' || tool === 'process' ? null : whyAskInBox(session)
  }

  mayHaveLeft(call: ToolCall, data: LeftBehind): boolean {
    return mayHaveReachedBox(call, data)
  }

  async run(session: OwnedSession, call: ToolCall): Promise<ToolOutcome | GiveUp> {
    const parsed = parseCall(call.tool, call.arguments, session.data.tools)
    switch (parsed.tool) {
      case 'bash':
        return runBash(this.#runners, session, call, parsed.input)
      case 'read':
        return runRead(this.#runners, session, parsed.input)
      case 'write':
        return runWrite(this.#runners, session, call, parsed.input)
      case 'edit':
        return runEdit(this.#runners, session, call, parsed.input)
      case 'process':
        return runProcess(this.#runners, session, parsed.input)
    }
  }

  stop(session: OwnedSession, call: ToolCall, fault: Fault): Promise<StoppedCall> {
    return stopBoxCall(this.#runners, session, call, fault)
  }
}

/**
 * The user's own tools: a command in the box, like `bash`, with the arguments as JSON on its standard input. A call whose outcome is
 * lost runs again if the tool is declared pure or idempotent and had printed nothing.
 */
export class CustomTools implements ToolSource {
  readonly #runners: Runners
  readonly needsBox = true
  #configs: ReadonlyMap<string, CustomToolConfig> = new Map()
  #version = 0

  constructor(runners: Runners) {
    this.#runners = runners
  }

  configure(tools: Readonly<Record<string, CustomToolConfig>> = {}): void {
    if (JSON.stringify(tools) === JSON.stringify(Object.fromEntries(this.#configs))) return
    this.#configs = new Map(Object.entries(tools))
    this.#version += 1
  }

  get version(): number {
    return this.#version
  }

  knows(name: string): boolean {
    return this.#configs.has(name)
  }

  answers(tool: string, choice: ToolChoice): boolean {
    return this.#configs.has(tool) && mayUse(choice, tool)
  }

  offered(choice: ToolChoice): readonly OfferedTool[] {
    return [...this.#configs]
      .filter(([name]) => mayUse(choice, name))
      .map(([name, { description = `Runs ${name}.`, schema: parameters = ANY_OBJECT }]) => ({
        spec: { type: 'function', function: { name, description, parameters } },
      }))
  }

  whyAsk(session: OwnedSession, tool: string): string | null | undefined {
    return this.#configs.get(tool)?.effect === 'pure' ? null : whyAskInBox(session)
  }

  mayHaveLeft(call: ToolCall, data: LeftBehind): boolean {
    return mayHaveReachedBox(call, data)
  }

  async run(session: OwnedSession, call: ToolCall): Promise<ToolOutcome | GiveUp> {
    const { command: words = [], effect } = this.#configs.get(call.tool) ?? {}
    const command = withInput(words, JSON.stringify(call.arguments), call.execId)
    if (Buffer.byteLength(command) > COMMAND_BYTES_MAX)
      return notRun(`its arguments have more than ${COMMAND_BYTES_MAX} bytes. Write them to a file.`)
    return runBash(this.#runners, session, call, { command }, effect === 'pure' || effect === 'idempotent')
  }

  stop(session: OwnedSession, call: ToolCall, fault: Fault): Promise<StoppedCall> {
    return stopBoxCall(this.#runners, session, call, fault)
  }
}

// ---- details ----

/** By the level of the box; before there is a box, by the level that its creator asked for. */
function whyAskInBox({ box, data }: OwnedSession): string | null | undefined {
  const level = box.seen?.isolation.level ?? data.level ?? data.box.isolation?.level ?? data.box.isolation?.min
  if (level === undefined) return undefined
  return level === 'process' ? 'this box is no sandbox: commands run as you' : null
}

/** A write that never reached its file has not. */
export const mayHaveReachedBox = ({ notesFile, file }: ToolCall, { runnerId, boxReleased }: LeftBehind): boolean =>
  runnerId !== null && boxReleased !== true && !(notesFile && file === undefined)

const ANY_OBJECT = { type: 'object', properties: {}, additionalProperties: true }

/** More does not fit into the command line of a process. */
const COMMAND_BYTES_MAX = 96 * 1024

/** The command as a shell runs it, with this line on its standard input. The same call gives the same text. */
function withInput(words: readonly string[], line: string, key: string): string {
  const end = `BREAKFALL_INPUT_${key.replace(/\W/g, '_')}`
  return `${words.map(quoted).join(' ')} <<'${end}'\n${line}\n${end}\n`
}

const quoted = (word: string): string => `'${word.replaceAll("'", `'\\''`)}'`
