/** What the doctor says about processes that sessions left running. Pure. */
import { counted } from '../render/counted.ts'
import { printable } from '../render/printable.ts'
import type { Finding } from './finding.ts'
import { cmd } from '../process/command-name.ts'

const NAMED_MAX = 5

/** Nothing if none runs. */
export function backgroundFinding(names: readonly string[]): readonly Finding[] {
  if (names.length === 0) return []
  const shown = names.slice(0, NAMED_MAX).map(printable).join(', ')
  const more = names.length > NAMED_MAX ? ' and more' : ''
  const found = `${counted(names.length, 'background process', 'background processes')} of your sessions still running: ${shown}${more}`
  return [
    {
      check: 'processes',
      verdict: 'ok',
      found,
      fix: `to list them: ${cmd('processes')}; to stop one: ${cmd('processes')} stop NAME`,
    },
  ]
}
