/** Which script a client gets: the one it names, or else one that works with the tools it offers. Pure. */
import type { OfferedTool } from './apis.ts'
import type { Move, Turn } from './conversation.ts'
import { type Script, scriptFor, scriptNamed } from './script.ts'
import { type ShellTool, shellToolOf } from './shell-tool.ts'

/** `tools` is null if the client sent no list. Undefined for an unknown script. */
export function scriptForClient(
  model: string,
  prompt: string,
  tools: readonly OfferedTool[] | null,
): Script | undefined {
  if (scriptNamed(model, prompt) !== undefined) return scriptFor(model, prompt)
  const offered = tools ?? []
  const fix = scriptFor('rehearsal/fix', prompt)
  if (fix?.tools.every((name) => offered.some((tool) => tool.name === name)) === true) return fix
  const shell = shellToolOf(offered)
  const steps = scriptFor(STEPS, prompt)
  if (shell === undefined || steps === undefined) return scriptFor('rehearsal/echo', prompt)
  return throughShell(steps, shell)
}

// ---- details ----

const STEPS = 'rehearsal/steps-8'

/** A script that calls `bash` only, for a client whose shell tool has another name or other arguments. */
const throughShell = (script: Script, shell: ShellTool): Script => ({
  name: script.name,
  tools: [shell.name],
  play: (turn) => fromBash(script.play(toBash(turn, shell)), shell),
})

const toBash = (turn: Turn, shell: ShellTool): Turn => ({
  ...turn,
  calls: turn.calls.map((call) => ({ ...call, arguments: { command: shell.commandIn(call.arguments) } })),
})

const fromBash = ({ calls = [], ...move }: Move, shell: ShellTool): Move => ({
  ...move,
  calls: calls.map((call) => ({ name: shell.name, arguments: shell.arguments(String(call.arguments['command'])) })),
})
