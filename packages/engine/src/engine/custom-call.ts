/**
 * Runs a call of one of the user's own tools: a command in the box, with the arguments as JSON on its standard input. A call whose
 * outcome is lost runs again if the tool is declared pure or idempotent and had printed nothing.
 */
import type { CustomToolConfig } from '../options.ts'
import { customCommand, INPUT_BYTES_MAX } from '../outside/custom-tool.ts'
import type { ToolCall } from '../turn/state.ts'
import { runBash } from './bash.ts'
import type { LiveSession } from './live-session.ts'
import type { GiveUp } from './performed.ts'
import type { Ports } from './ports.ts'
import { notRun, type ToolOutcome } from './tool-outcome.ts'

export async function runCustom(
  ports: Ports,
  session: LiveSession,
  call: ToolCall,
  config: CustomToolConfig,
): Promise<ToolOutcome | GiveUp> {
  const command = customCommand(config, call.arguments, call.execId)
  if (Buffer.byteLength(command) > INPUT_BYTES_MAX)
    return notRun(`its arguments have more than ${INPUT_BYTES_MAX} bytes. Write them to a file.`)
  const mayRepeat = config.effect === 'pure' || config.effect === 'idempotent'
  return runBash(ports, session, call, { command }, mayRepeat)
}
