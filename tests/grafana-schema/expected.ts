// The types of a dashboard's file, from Grafana's schema.

import type { AnnotationQuery, Dashboard, DataQuery, FieldConfigSource, Panel } from '@grafana/schema';
import type { Options as Stat } from '@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen';
import type {
  FieldConfig as TimeSeriesField,
  Options as TimeSeries,
} from '@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen';

/** A type as it is in a file: enumerations are their values. */
type InFile<T> = T extends string ? `${T}` : T extends (infer Item)[] ? InFile<Item>[] : T extends object ? { [Key in keyof T]: InFile<T[Key]> } : T;

type OfType<Type extends string, Options, Field> = Omit<Panel, 'type' | 'options' | 'fieldConfig'> & {
  type: Type;
  options: Partial<Options>;
  fieldConfig: Omit<FieldConfigSource, 'defaults'> & {
    defaults: Omit<FieldConfigSource['defaults'], 'custom'> & { custom?: Partial<Field> };
  };
};
type KnownPanel = OfType<'stat', Stat, Record<string, never>> | OfType<'timeseries', TimeSeries, TimeSeriesField>;

/** With the fields of Prometheus, which the schema leaves to the data source. */
type Annotation = AnnotationQuery<DataQuery & { expr: string }> & { titleFormat?: string; textFormat?: string };

export type DashboardFile = InFile<
  Omit<Dashboard, 'annotations' | 'panels'> & { annotations: { list: Annotation[] }; panels: KnownPanel[] }
>;
