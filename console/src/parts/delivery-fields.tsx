import { Button } from "../ui/basics.tsx";
import { TextField, Toggle } from "../ui/fields.tsx";
import { SelectField } from "../ui/select.tsx";
import { type DeliveryDraft, NO_DELIVERY } from "./draft.ts";

const WHEN = [
  ["both", "If it succeeds or fails"],
  ["succeeded", "If it succeeds"],
  ["failed", "If it fails"],
] as const;
/** The API's limit. */
const MAX_DELIVERIES = 5;

interface Props {
  deliveries: DeliveryDraft[];
  onDeliveries: (deliveries: DeliveryDraft[]) => void;
}

/** Where the results of runs are sent. */
export function DeliveryFields({ deliveries, onDeliveries }: Props) {
  const set = (place: number, changes: Partial<DeliveryDraft>) =>
    onDeliveries(deliveries.map((each, nth) => (nth === place ? { ...each, ...changes } : each)));
  return (
    <div className="space-y-4">
      {deliveries.map((delivery, place) => (
        <fieldset
          // biome-ignore lint/suspicious/noArrayIndexKey: the entries have no id
          key={place}
          className="grid items-start gap-3 rounded-lg border border-line p-3 sm:grid-cols-2"
        >
          <legend className="px-1 text-sm text-muted">Delivery {place + 1}</legend>
          <TextField
            label="Send to"
            param={`deliveries[${place}].to`}
            required
            value={delivery.to}
            onValue={(to) => set(place, { to })}
            placeholder="ada@example.com"
            hint="Your confirmed e-mail address, or a web address that gets a signed webhook."
          />
          <SelectField
            label="After a run"
            param={`deliveries[${place}].on`}
            value={delivery.when}
            options={WHEN}
            onValue={(when) => set(place, { when })}
          />
          <Toggle
            label="Only if the result has changed"
            checked={delivery.unless_unchanged}
            onChecked={(unless_unchanged) => set(place, { unless_unchanged })}
            hint="Compares it with the result that this address got last."
          />
          <div className="sm:text-right">
            <Button kind="quiet" icon="trash" onClick={() => onDeliveries(deliveries.toSpliced(place, 1))}>
              Remove delivery
            </Button>
          </div>
        </fieldset>
      ))}
      {deliveries.length < MAX_DELIVERIES && (
        <Button icon="plus" onClick={() => onDeliveries([...deliveries, NO_DELIVERY])}>
          Add delivery
        </Button>
      )}
    </div>
  );
}
