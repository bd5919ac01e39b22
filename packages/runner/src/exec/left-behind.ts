/** Whether a command meant to leave something running. Pure: the words say it, because in a sandbox nothing is left to be seen. */
import type { Diagnostic } from '@breakfall/faults'

export function leavesBehind(command: readonly string[]): boolean {
  const text = command.length === 3 && command[1] === '-c' ? command[2] : undefined
  if (text === undefined) return ['nohup', 'setsid'].includes(command[0] ?? '')
  const words = text
    .replaceAll(/'[^']*'|"(?:[^"\\]|\\.)*"/g, 'x') // quoted words start nothing
    .replaceAll(/#.*$/gm, '')
  if (/(^|[\s;&|(])(nohup|setsid|disown)\b/.test(words)) return !/(^|[\s;&])wait\b/.test(words)
  return /[^&>|\s]\s*&\s*($|[\n;)}]|[^&>\s\d])/m.test(words) && !/(^|[\s;&])wait\b/.test(words)
}

export const backgroundEnded: Diagnostic = {
  id: 'background_ended',
  rank: 'hint',
  message: 'what this command left running in the background was ended with it',
  advice: 'start it with background: true to keep it running',
  retry: 'never',
  evidence: [],
  count: 1,
}
