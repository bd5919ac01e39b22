/** A fault as Markdown for another agent or a colleague: the sentence, the raw error, what was tried. */
import type { TurnView, WireFault } from '../fold/view.ts'
import { ACTIONS, faultTitle, happened } from './words.ts'
import { length } from '../text/format.ts'

export function forAnAgent(fault: WireFault, turn: TurnView): string {
  const tried = turn.steps.flatMap((step) =>
    step.attempts.flatMap(({ n, fault: failed, wait }) =>
      failed === null
        ? []
        : [
            `- step ${step.n}, attempt ${n}: ${failed.category}; ${wait === null ? 'gave up' : `${ACTIONS[wait.action] ?? wait.action} after ${length(wait.delayMs)}`}`,
          ],
    ),
  )
  // Longer than any fence inside: a raw error never leaves its block.
  const fence = '`'.repeat(Math.max(2, ...[...fault.errorRaw.matchAll(/`+/g)].map(([run]) => run.length)) + 1)
  return [
    `# ${faultTitle(fault)} (\`${fault.category}\`)`,
    '',
    happened(fault),
    fault.message?.advice ?? '',
    '',
    fence,
    fault.errorRaw,
    fence,
    '',
    ...fault.diagnostics.map(({ rank, message, advice }) => `- ${rank}: ${message} ${advice}`),
    '',
    '## What Breakfall tried',
    ...(tried.length === 0 ? ['- nothing yet'] : tried.slice(-20)),
    '',
    `Turn \`${turn.id}\`, model \`${turn.model ?? 'unknown'}\`.`,
  ]
    .filter((line, index, all) => line !== '' || all[index - 1] !== '')
    .join('\n')
}
