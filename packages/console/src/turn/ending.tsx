/** How a turn ended, and the survival card that people send to each other. */
import type { Session } from '@breakfall/wire'
import { isCutOff } from '@breakfall/wire/browser'
import type { ComponentChildren, VNode } from 'preact'
import { useState } from 'preact/hooks'
import { survivedIn, type TurnView } from '../fold/view.ts'
import { cardLines, cardMarkdown, cardSvg } from '../fold/card.ts'
import { STATES } from '../ui/states.ts'
import { happened } from './words.ts'
import { counted } from '../text/format.ts'
import { CopyButton } from '../ui/boundary.tsx'
import { Badge, Category } from '../ui/labels.tsx'
import { saveAs } from './output.tsx'

type EndingProps = {
  readonly turn: TurnView
  readonly session: Session | undefined
  readonly actions: ComponentChildren
}

export function Ending({ turn, session, actions }: EndingProps): VNode {
  const [isOpen, setOpen] = useState(false)
  const { end } = turn
  const ended = turn.status.state
  const state = ended === 'failed' || ended === 'cancelled' ? ended : isCutOff(end ?? {}) ? 'cut-off' : 'finished'
  return (
    <div class={`ending tone-${STATES[state].tone}`}>
      <div class="row">
        <Badge state={state} />
        {turn.fault === null ? null : (
          <span>
            {happened(turn.fault)} <Category name={turn.fault.category} />
          </span>
        )}
        <span class="muted">
          {counted(turn.steps.length, 'step')}, survived {survivedIn(turn)}
        </span>
        <span class="spacer" />
        {actions}
        <button type="button" class="quiet" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          survival card
        </button>
      </div>
      {isOpen ? <Card turn={turn} title={session?.title ?? turn.prompt} /> : null}
    </div>
  )
}

function Card({ turn, title }: { readonly turn: TurnView; readonly title: string }): VNode {
  const svg = (): string => cardSvg(turn, title)
  return (
    <div class="card survival">
      <h2>{counted(turn.steps.length, 'step')}, each once</h2>
      <ul>
        {cardLines(turn).map((line) => (
          <li key={line}>{line}</li>
        ))}
      </ul>
      <div class="row">
        <CopyButton label="copy as Markdown" text={() => cardMarkdown(turn, title)} />
        <button
          type="button"
          class="quiet"
          onClick={() => saveAs(new Blob([svg()], { type: 'image/svg+xml' }), 'survival-card.svg')}
        >
          download as SVG
        </button>
      </div>
    </div>
  )
}
