/** A call that waits for a person: what it would do, why it asks, and the three answers. */
import type { VNode } from 'preact'
import type { Call } from '../fold/view.ts'
import { json } from '../link/api.ts'
import { reveal } from '../text/reveal.ts'
import { Action, outcomes } from './action.tsx'
import { Countdown } from './basics.tsx'

type ApprovalProps = { readonly call: Call; readonly turnId: string; readonly isReadOnly: boolean }

const ANSWERS = [
  { decision: 'allow', label: 'Allow', pending: 'Allowing…' },
  { decision: 'allow_session', label: 'Allow in this session', pending: 'Allowing…' },
  { decision: 'deny', label: 'Deny', pending: 'Denying…' },
] as const

const DECIDED: Readonly<Record<string, string>> = {
  allow: 'A person allowed this call.',
  allow_session: 'A person allowed this tool for the session.',
  deny: 'A person denied this call.',
}

export function Approval({ call, turnId, isReadOnly }: ApprovalProps): VNode | null {
  const { approval } = call
  if (approval === null) return null
  if (approval.decision !== null) return <p class="more">{DECIDED[approval.decision] ?? approval.decision}</p>
  const subject = `approve:${call.id}`
  return (
    <div class="more" role="group" aria-label="This call waits for your approval">
      <strong>Waits for you.</strong> <span>{reveal(approval.why)}</span>
      {approval.expiresAt === null ? null : (
        <span>
          Expires in <Countdown until={Date.parse(approval.expiresAt)} />
        </span>
      )}
      {isReadOnly
        ? null
        : ANSWERS.map(({ decision, label, pending }) => (
            <Action
              key={decision}
              id={`approve-${decision}:${call.id}`}
              subject={subject}
              label={label}
              pendingLabel={pending}
              kind={decision === 'deny' ? 'danger' : undefined}
              run={async () => {
                await json(`/v1/turns/${encodeURIComponent(turnId)}/approve`, {
                  method: 'POST',
                  body: { callId: call.id, decision },
                })
                return undefined
              }}
            />
          ))}
      <span>{outcomes.value[subject]}</span>
    </div>
  )
}
